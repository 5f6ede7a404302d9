"""Every model at its paper's size: some epochs of a text, seconds an epoch, memory, parameters, perplexity.

    python benchmarks/models_gpu.py TRAIN --valid FILE [--configs hmm-4096,sc-pcfg] [--epochs 3] [--out DIR]

One row a configuration. A row that is in the results for these settings is not measured again, and one that was
interrupted goes on from its checkpoint under --out; so it can be called again until all are done. A row that fails is
recorded with its reason. Needs what benchmarks/train_step.py needs. Appends to results/models_gpu.csv.
"""

import argparse
import csv
import time
from pathlib import Path

import torch

from benchmarking.report import append_rows, environment
from simplepcfg.errors import SimplePCFGError
from simplepcfg.models import build_model
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.device import resolve_device
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import train
from simplepcfg.training.reporting.progress import StepReport
from train_step import Enough, Watch, first_lines, peak, reset_peak

RESULTS = Path(__file__).parent / "results" / "models_gpu.csv"
CONFIGS = (
    "sn-pcfg-4096",
    "sn-pcfg-ie",
    "sc-pcfg",
    "rank-pcfg-4096",
    "tn-pcfg-500",
    "n-pcfg",
    "n-pcfg-128",
    "c-pcfg",
    "hmm-4096",
    "lhmm-16384",
    "rank-hmm-16384",
)
SETTING = ("config", "data", "epochs", "machine", "commit")


class Deadline(Watch):
    """Ends a row where the time is over; its checkpoint stays."""

    def __init__(self, until: float) -> None:
        super().__init__(0)
        self._until = until

    def step(self, report: StepReport) -> None:
        """See Watch."""
        super().step(report)
        if time.monotonic() > self._until:
            raise Enough


def main() -> None:
    """Measure, print and record, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path, help="training text, one sentence a line")
    parser.add_argument("--valid", type=Path, required=True, help="validation text, whose perplexity is shown")
    parser.add_argument("--configs", default=",".join(CONFIGS), help="names, separated by commas")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=0, help="train on the first so many only; 0 takes all")
    parser.add_argument("--seconds", type=float, default=1e9, help="what is left after this long is not measured")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=Path("runs/models"), help="where runs are kept")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--commit", help="what was measured, where the tree has no history")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    where = environment(resolve_device(arguments.device), arguments.commit)
    done = recorded(arguments.csv)
    for name in arguments.configs.split(","):
        key = {"config": name, "data": arguments.train.name, "epochs": arguments.epochs}
        if tuple(str((key | where)[column]) for column in SETTING) in done:
            print(f"{name}: done before", flush=True)
            continue
        if time.monotonic() > until:
            print(f"{name}: no time left", flush=True)
            break
        row = measure(arguments, name, until)
        if row is not None:
            append_rows(arguments.csv, [key | row | where])


def measure(arguments: argparse.Namespace, name: str, until: float) -> dict[str, object] | None:
    """One row, or None if its time was over."""
    fixed = [f"training.epochs={arguments.epochs}", "training.patience=0", "data.eos=true"]
    device = resolve_device(arguments.device)
    folder = RunFolder(arguments.out / name)
    reset_peak(device)
    row: dict[str, object] = dict.fromkeys(
        ("kind", "parameters", "seconds_an_epoch", "peak_mb", "peak_reserved_mb", "valid_perplexity", "failure")
    )
    try:
        config = load_config(name, [*fixed, *arguments.settings], environment={})
        row |= {"kind": config.model.kind, "parameters": parameters(config)}
        result = train(
            config,
            folder.path,
            resume=folder.config.exists(),
            device=arguments.device,
            reporter=Deadline(until),
            train_text=first_lines(arguments.train, arguments.sentences),
            valid_text=first_lines(arguments.valid, 0),
        )
    except Enough:
        print(f"{name}: stopped by --seconds, to be gone on with", flush=True)
        return None
    except SimplePCFGError as error:
        row["failure"] = f"{type(error).__name__}: {error}"
    else:
        row["seconds_an_epoch"] = round(result.seconds / result.epochs, 2)
        row["valid_perplexity"] = result.best.perplexity and round(result.best.perplexity, 2)
    row |= peak(device)
    print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in row.items() if value is not None), flush=True)
    return row


def parameters(config: RunConfig) -> int:
    """Trained numbers; a vocabulary of ten thousand words."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_model(config.model, 10_002).parameters())


def recorded(path: Path) -> set[tuple[str, ...]]:
    """Settings of the rows that were measured, failures included."""
    if not path.exists():
        return set()
    with path.open(newline="", encoding="utf-8") as stream:
        return {tuple(row[column] for column in SETTING) for row in csv.DictReader(stream)}


if __name__ == "__main__":
    main()
