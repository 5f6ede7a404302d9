"""The floating-point mode in which runs train."""

import sys
from pathlib import Path

import torch

from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.device import subnormals_as_zero
from simplepcfg.training import Reporter, train
from simplepcfg.training.reporting.progress import EpochReport
from tiny_runs import SETTINGS, tiny_sentences

TINY = 2.0**-100
FLUSHES = torch.set_flush_denormal(False)  # whether this processor can: x86 and AArch64 can


def test_subnormals_are_zero_inside_only() -> None:
    """Products below the smallest normal number are 0, and the caller's mode comes back, also when nested."""
    numbers = torch.full((4,), TINY)
    assert (numbers * 2.0**-40).all()
    with subnormals_as_zero():
        with subnormals_as_zero():
            pass
        assert (numbers * 2.0**-40).any() != FLUSHES
        assert (numbers * 2.0**-20).all()
        assert (sys.float_info.min / 2 == 0.0) == FLUSHES
    assert (numbers * 2.0**-40).all()
    assert sys.float_info.min / 2 > 0.0


class _Products(Reporter):
    """Keeps a product with a result below the normal numbers, computed in the middle of training."""

    def __init__(self) -> None:
        self.products: list[float] = []

    def epoch(self, report: EpochReport) -> None:
        self.products.append(float(torch.tensor(TINY) * 2.0**-40))


def test_training_computes_without_subnormals(tmp_path: Path) -> None:
    """Training has the mode, and leaves the caller's as it was."""
    reporter = _Products()
    config = load_config("sn-pcfg-small", SETTINGS, environment={})
    train(config, tmp_path / "run", train_text=tiny_sentences(), reporter=reporter)
    assert (reporter.products == [0.0]) == FLUSHES
    assert float(torch.tensor(TINY) * 2.0**-40) > 0.0
