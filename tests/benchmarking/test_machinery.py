"""benchmarks/machinery.py at a size of no account: every substitute computes what it stands in for."""

import csv
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.training.step.counters import StepCounters
from simplepcfg.training.step.step import BatchGradient
from simplepcfg.training.step.update import Gradients

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import machinery  # noqa: E402
import machinery_pieces  # noqa: E402
from simplepcfg.training.step import step  # noqa: E402

PIECES = {piece.name: piece for piece in machinery_pieces.STEP_PIECES}

pytestmark = pytest.mark.usefixtures("nothing_to_collect")


def loss_and_gradient(piece: machinery_pieces.Piece | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch's sums and the gradient of one step in bf16, by the kernels that a GPU runs but for one piece."""
    torch.manual_seed(0)
    sizes = SimpleNPCFGConfig(nonterminals=5, preterminals=6, embedding=8, init_logit_std=1.0, rms_norm=True)
    model = SimpleNPCFG(sizes, 12)
    model.precision = "bf16"
    gradients, counters = Gradients(list(model.parameters()), flat=True), StepCounters(torch.device("cpu"), 0)
    with machinery_pieces.interpreted(), piece.without() if piece else nullcontext():
        BatchGradient(model, gradients, counters)(torch.tensor([[3, 7, 7]]), None, 1)
    assert gradients.flat is not None
    return counters.batch, gradients.flat


@pytest.fixture(scope="module")
def usual() -> tuple[torch.Tensor, torch.Tensor]:
    return loss_and_gradient(None)


@pytest.mark.parametrize("name", [name for name in PIECES if "capture" not in name])
def test_substitute(name: str, usual: tuple[torch.Tensor, torch.Tensor]) -> None:
    found = loss_and_gradient(PIECES[name])
    torch.testing.assert_close(found[0], usual[0], rtol=2e-3, atol=0)
    assert float((found[1] - usual[1]).norm() / usual[1].norm()) < 0.02  # bfloat16 has three digits


def test_code_that_a_piece_costs() -> None:
    for piece in (*PIECES.values(), machinery_pieces.WRITER):
        assert 20 < piece.lines < 1000


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Command-line arguments of a run in plain PyTorch, without the interpreter; returns the file of results."""
    path = tmp_path / "machinery.csv"
    sizes = "--sizes 5 --words 20 --embedding 8 --batch 2 --length 4 --rounds 1 --training-steps 4 --checkpoint-steps 2"
    monkeypatch.setattr(sys, "argv", ["machinery.py", "--device", "cpu", *sizes.split(), "--csv", str(path)])
    monkeypatch.setattr(machinery, "interpreted", nullcontext)
    monkeypatch.setattr(machinery, "ROUND_MS", 1.0)
    # Two operations are all that a CPU does anyway, and its kernels take seconds each.
    kept = tuple(piece for name, piece in PIECES.items() if "rules" not in name)
    monkeypatch.setattr(machinery, "STEP_PIECES", kept)
    return path


def test_rows(arguments: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert machinery.main() == 0
    with open(arguments, newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["piece"] for row in rows] == [piece.name for piece in (*machinery.STEP_PIECES, machinery.WRITER)]
    assert {row["unit"] for row in rows} == {"ms a step", "s a training of 4 steps and 3 checkpoints"}
    for row in rows:
        ratio = float(row["without"]) / float(row["with"])
        assert float(row["gain_percent"]) == pytest.approx(100 * (ratio - 1), abs=0.5)
        assert float(row["loss_difference"]) < 2e-3
        assert (row["failure"], row["N"], row["P"]) == ("", "5", "10")
    printed = capsys.readouterr().out
    assert all(row["piece"] in printed for row in rows)


def test_failures(arguments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece that cannot be left out, or whose substitute has another loss, is named and leaves the others alone."""
    halved = (machinery_pieces.simple_npcfg, "root_probabilities", lambda logits, shards: logits.softmax(-1) / 2)
    pieces = (
        machinery_pieces.Piece("broken", (), ((step, "Gradients", None),)),
        machinery_pieces.Piece("halved", (), (halved,)),
        PIECES["softmax kernels, against PyTorch"],
    )
    monkeypatch.setattr(machinery, "STEP_PIECES", pieces)
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--pieces", "broken,halved,softmax"])
    assert machinery.main() == 1
    with open(arguments, newline="", encoding="utf-8") as stream:
        failures = {row["piece"]: row["failure"] for row in csv.DictReader(stream)}
    assert failures["broken"].startswith("TypeError")
    assert failures["halved"].startswith("the loss is")
    assert failures["softmax kernels, against PyTorch"] == ""
