"""A learning rate that falls whenever validation has not become better for some epochs."""

import json
import signal
from pathlib import Path

import pytest

from simplepcfg.errors import InputError
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import Interrupted, train
from toy_runs import SignalAt, differences

# Steps so large that epochs without a gain come soon; lines are frequent.
PLATEAU = [
    "training.schedule=plateau",
    "training.plateau_factor=0.25",
    "training.learning_rate=0.5",
    "training.warmup_steps=0",
    "training.epochs=6",
    "training.patience=0",
    "training.log_every=4",
    "training.checkpoint_steps=0",
]


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_rate_falls_after_so_many_epochs_without_a_gain(make_config, tmp_path: Path, epochs: int) -> None:
    config = make_config(*PLATEAU, f"training.plateau_epochs={epochs}")
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    train(config, whole.path)
    rate, without, reductions = 0.5, 0, 0
    for line in map(json.loads, whole.metrics.read_text().splitlines()):
        if "learning_rate" in line:
            assert line["learning_rate"] == pytest.approx(rate)
        else:
            without = 0 if line["best"] else without + 1
            if without and without % epochs == 0:
                rate, reductions = rate * 0.25, reductions + 1
    assert reductions >= 1
    if epochs > 1:
        return
    with pytest.raises(Interrupted):
        train(config, broken.path, reporter=SignalAt(30, signal.SIGTERM))
    train(None, broken.path, resume=True)
    assert differences(whole, broken) == []


@pytest.mark.parametrize(("key", "value"), [("epochs", 0), ("factor", 1), ("factor", 0)])
def test_impossible_settings_are_refused(make_config, key: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"training\.plateau_{key} = {value}"):
        make_config(f"training.plateau_{key}={value}")
