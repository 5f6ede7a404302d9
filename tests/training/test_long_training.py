"""Two thousand steps take no more memory and no more open files than two hundred."""

import os
from pathlib import Path

import pytest
import torch

from simplepcfg.training import train
from simplepcfg.training.reporting.progress import Reporter, StepReport

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
DEVICES = [pytest.param("cpu", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.gpu)]


class Watching(Reporter):
    """Reads this process's memory and open files at some steps."""

    def __init__(self, device: str) -> None:
        self._device = device
        self.seen: dict[int, tuple[int, int, int]] = {}

    def step(self, report: StepReport) -> None:
        if report.step % 100 == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            on_gpu = torch.cuda.memory_allocated() if self._device == "cuda" else 0
            self.seen[report.step] = (pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd")), on_gpu)


@pytest.mark.parametrize("device", DEVICES)
def test_memory_and_files_stay_flat(make_config, tmp_path: Path, device: str) -> None:
    watching = Watching(device)
    settings = ["training.epochs=300", "training.patience=0", "training.checkpoint_steps=20", "training.log_every=10"]
    settings.append(f"training.device={device}")
    result = train(make_config(*settings), tmp_path / "run", reporter=watching)
    assert result.steps >= 2000
    steps = sorted(watching.seen)
    early, late = steps[4], steps[-1]
    assert watching.seen[late][1] <= watching.seen[early][1] + 1  # a checkpoint may be being written
    assert watching.seen[late][0] - watching.seen[early][0] < 8 << 20
    assert watching.seen[late][2] - watching.seen[early][2] < 8 << 20
