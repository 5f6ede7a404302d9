"""`python benchmarks/inside.py`: a table, files, and one line for what is wrong."""

from pathlib import Path

import pytest

import inside
from benchmarking import inside as benchmarking
from benchmarking.timing import Machine


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch, nothing_to_collect: None) -> None:
    """No process of its own for the memory, no measuring of the machine."""
    monkeypatch.setattr(benchmarking, "peak_on_cpu", lambda *_: 1e6)
    monkeypatch.setattr(Machine, "flops_per_second", lambda *_: 1e11)
    monkeypatch.setattr(Machine, "bytes_per_second", 1e10)


def test_a_table_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "inside.csv"
    arguments = ["--sizes", "2,4,5,6", "1,3,2,2", "--repeats", "2", "--device", "cpu", "--csv", str(path)]
    inside.main([*arguments, "--paper", str(tmp_path / "paper")])
    out, err = capsys.readouterr()
    names = [line.split()[0] for line in out.splitlines() if "fp32" in line]
    assert names == ["log_sum_exp", "log_einsum_exp", "torch"] * 2
    assert "TFLOP/s" in err
    assert "triton" in err
    assert len(path.read_text().splitlines()) == 7
    assert "| 2x4x5x6 | log-einsum-exp |" in (tmp_path / "paper" / "table.md").read_text()
    assert len((tmp_path / "paper" / "table.csv").read_text().splitlines()) == 7
    inside.main([*arguments, "--backends", "torch"])
    assert len(path.read_text().splitlines()) == 9


def test_quick(capsys: pytest.CaptureFixture[str]) -> None:
    inside.main(["--quick", "--device", "cpu", "--backends", "torch"])
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--sizes", "16,20,512"], '"16,20,512"'),
        (["--backends", "cuda"], "'cuda'"),
        (["--backends", "triton"], "needs a CUDA GPU"),
        (["--precision", "fp8"], "'fp8'"),
        (["--precision", "bf16"], "bf16"),
        (["--repeats", "0"], "repeats"),
        (["--csv", "{file}"], "other.csv:1"),
    ],
)
def test_one_line_for_what_is_wrong(tmp_path: Path, arguments: list[str], named: str) -> None:
    (tmp_path / "other.csv").write_text("something else\n")
    given = [text.format(file=tmp_path / "other.csv") for text in arguments]
    with pytest.raises(SystemExit, match=r"^inside\.py: ") as error:
        inside.main([*given, "--device", "cpu"])
    assert named in str(error.value)
