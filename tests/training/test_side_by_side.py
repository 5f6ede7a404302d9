"""Several trainings at a time."""

import json
from pathlib import Path

from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.device import usable_cores
from simplepcfg.training.seeds import train_seeds
from tiny_runs import SETTINGS, tiny_sentences


def test_processes_share_the_cores(tmp_path: Path) -> None:
    """Each of two runs at a time has half of the cores, unless its configuration says how many threads it has."""
    text = tmp_path / "text.txt"
    text.write_text("\n".join(tiny_sentences(40)), "utf-8")
    texts = [f"data.train={text}", f"data.valid={text}"]
    config = load_config("sn-pcfg-small", [*SETTINGS, "training.threads=0", *texts], environment={})
    train_seeds(config, tmp_path / "runs", 2, jobs=2)
    for run in ("seed-0", "seed-1"):
        threads = json.loads((tmp_path / "runs" / run / "run.json").read_text())["threads"]
        assert threads == max(usable_cores() // 2, 1)
