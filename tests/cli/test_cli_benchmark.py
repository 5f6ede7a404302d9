"""`simplepcfg benchmark inside`: a table, a CSV file, and one line for what is wrong."""

from pathlib import Path

import pytest

from command_calls import Call


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch, nothing_to_collect: None) -> None:
    """No process of its own for the memory, no measuring of the machine."""
    from simplepcfg.benchmarking import inside
    from simplepcfg.benchmarking.timing import Machine

    monkeypatch.setattr(inside, "peak_on_cpu", lambda *_: 1e6)
    monkeypatch.setattr(Machine, "flops_per_second", lambda *_: 1e11)
    monkeypatch.setattr(Machine, "bytes_per_second", 1e10)


def test_a_table_and_a_file(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "inside.csv"
    sizes = ("--sizes", "2,4,5,6", "--sizes", "1,3,2,2")
    arguments = ("benchmark", "inside", *sizes, "--repeats", "2", "--device", "cpu", "--csv", path)
    first = call(*arguments)
    assert first.code == 0
    assert [line.split()[0] for line in first.lines if "fp32" in line] == ["log_sum_exp", "log_einsum_exp", "torch"] * 2
    assert "TFLOP/s" in first.err
    assert "triton" in first.err
    assert len(path.read_text().splitlines()) == 7
    second = call(*arguments, "--backends", "torch", "--quiet")
    assert second.err == ""
    assert len(path.read_text().splitlines()) == 9


def test_quick(call: Call) -> None:
    result = call("benchmark", "inside", "--quick", "--device", "cpu", "--backends", "torch")
    assert result.code == 0
    assert len(result.lines) == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--sizes", "16,20,512"], '"16,20,512"'),
        (["--backends", "cuda"], "'cuda'"),
        (["--backends", "triton"], "needs a CUDA GPU"),
        (["--precision", "fp8"], "'fp8'"),
        (["--precision", "bf16"], "bf16"),
        (["--repeats", "0"], "--repeats"),
        (["--repeats", "many"], "--repeats"),
        (["--device", "tpu"], "tpu"),
        (["--csv", "{file}"], "other.csv:1"),
        (["--csv", "{folder}"], "directory"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_one_line_for_what_is_wrong(call: Call, tmp_path: Path, arguments: list[str], named: str) -> None:
    other = tmp_path / "other.csv"
    other.write_text("something else\n")
    places = {"file": other, "folder": tmp_path}
    device = [] if "--device" in arguments else ["--device", "cpu"]
    result = call("benchmark", "inside", *(text.format(**places) for text in arguments), *device)
    assert (result.code, result.out) == (2, "")
    assert named.lower() in result.err.lower()
    assert len(result.err.splitlines()) == 1


def test_help_without_a_command(call: Call) -> None:
    result = call("benchmark")
    assert result.code == 0
    assert "inside" in result.out
    assert call("benchmark", "outside").code == 2
