"""Benchmarks of the inside algorithm at sizes of no account: what they count, refuse and record."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarking import inside as benchmarking
from benchmarking import report
from benchmarking.inside import Result, Variant, benchmark_inside, choose_variants, default_sizes
from benchmarking.sizes import Size
from benchmarking.timing import Machine, Times, measure
from inside_gpu import each_result
from measuring import equal_lengths_like, measure_in_turns, mixed_lengths
from simplepcfg.errors import InputError
from simplepcfg.ops.inside import BACKENDS

CPU = torch.device("cpu")

pytestmark = pytest.mark.usefixtures("nothing_to_collect")


@pytest.fixture(scope="module")
def machine() -> Machine:
    """Rates that need no measuring."""
    made = Machine(CPU)
    made._rates["fp32"] = 1e11
    made.__dict__["bytes_per_second"] = 1e10
    return made


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peak memory without a process of its own."""
    monkeypatch.setattr(benchmarking, "peak_on_cpu", lambda *_: 3e6)


@pytest.mark.usefixtures("no_child")
def test_every_backend_of_a_cpu(machine: Machine) -> None:
    size = Size(2, 5, 6, 7)
    results = list(benchmark_inside([size], choose_variants(CPU), CPU, repeats=3, machine=machine))
    assert [result.variant.backend for result in results] == ["log_sum_exp", "log_einsum_exp", "torch"]
    for result in results:
        assert result.times is not None
        assert 0 < result.times.p20 <= result.times.p50 <= result.times.p80
        assert result.ratio == pytest.approx(result.times.p50 / result.floor_ms)
        assert result.failure == ""


def test_peak_memory_is_that_of_the_pass(machine: Machine) -> None:
    size = Size(2, 4, 300, 600)
    (result,) = benchmark_inside([size], [Variant("torch")], CPU, repeats=1, machine=machine)
    rules = 4 * 2 * 300 * 900
    assert result.peak_bytes is not None
    assert rules <= result.peak_bytes <= 6 * rules  # at least the rules' gradient


def test_too_large_is_a_result_and_is_not_tried(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarking, "forward_backward", lambda *_: pytest.fail("it was tried"))
    size = Size(64, 40, 1 << 17, 1 << 18)
    (result,) = benchmark_inside([size], [Variant("torch")], CPU, machine=machine)
    assert (result.failure, result.times, result.ratio) == ("OOM", None, None)
    assert any("OOM" in line for line in report.table([result]))


@pytest.mark.usefixtures("no_child")
def test_an_allocation_that_fails_is_a_result(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(benchmarking, "forward_backward", fail)
    (result,) = benchmark_inside([Size(1, 2, 1, 1)], [Variant("torch")], CPU, machine=machine)
    assert result.failure == "OOM"


@pytest.mark.usefixtures("no_child")
def test_a_defect_stops_the_run_unless_asked_not_to(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a defect")

    monkeypatch.setattr(benchmarking, "forward_backward", fail)
    sizes, variants = [Size(1, 2, 1, 1)], [Variant("torch"), Variant("log_einsum_exp")]
    with pytest.raises(AssertionError, match="a defect"):
        list(benchmark_inside(sizes, variants, CPU, machine=machine))
    results = list(each_result(sizes, variants, machine, 1))
    assert [result.failure for result in results] == ["AssertionError"] * 2


def test_nothing_is_measured_after_the_time_is_up(machine: Machine) -> None:
    results = list(each_result([Size(1, 2, 1, 1)], choose_variants(CPU), machine, 1, until=0.0))
    assert {result.failure for result in results} == {"no time"}


def test_flops_and_bytes_are_counted_span_by_span() -> None:
    size = Size(3, 7, 5, 11)
    spans = sum(3 * (7 - width + 1) for width in range(2, 7))
    splits = sum(3 * (7 - width + 1) * (width - 1) for width in range(2, 8))
    assert size.inner_spans == spans
    assert size.flops == 12 * 25 * spans + 12 * 5 * 11 * 21
    assert size.split_bytes(2) == 12 * 5 * splits
    mixed = Size(3, 7, 5, 11, (7, 7, 7))
    assert (mixed.flops, mixed.splits) == (size.flops, size.splits)


def test_mixed_lengths_and_equal_lengths_of_the_same_cost() -> None:
    lengths = mixed_lengths(64)
    assert lengths == mixed_lengths(64)
    assert max(lengths) == 60
    assert sum(lengths) / 64 == pytest.approx(21, abs=2.5)
    mixed = Size(64, 60, 4096, 8192, lengths)
    equal = equal_lengths_like(mixed)
    assert equal.inner_spans == pytest.approx(mixed.inner_spans, rel=0.03)
    assert equal.words == pytest.approx(mixed.words, rel=0.05)


@pytest.mark.parametrize("text", ["16,20,512", "a,20,512,1024", "16,1,512,1024", "0,20,512,1024", ""])
def test_bad_sizes_are_named(text: str) -> None:
    with pytest.raises(InputError, match=f'size "{text}"'):
        Size.parse(text)


@pytest.mark.parametrize(
    ("backends", "precisions", "message"),
    [
        (["cuda"], None, "backend 'cuda' is not measured"),
        (["triton"], None, "needs a CUDA GPU"),
        (None, ["fp8"], "precision 'fp8' is unknown"),
        (["torch"], ["bf16"], "no backend asked for has precision bf16"),
    ],
)
def test_bad_choices_are_named(backends: list[str] | None, precisions: list[str] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose_variants(CPU, backends, precisions)


def test_the_table_of_a_card_holds_everything() -> None:
    variants = choose_variants(torch.device("cuda"))
    assert {variant.backend for variant in variants} == set(BACKENDS) - {"naive"}
    ours = [str(variant) for variant in variants if variant.backend == "triton"]
    assert ours == [f"triton {kind} {mode}" for kind in ("fp32", "tf32", "bf16") for mode in ("eager", "graph")]
    grid = {(size.batch, size.n, size.nonterminals) for size in default_sizes(torch.device("cuda"))}
    assert {(16, n, states) for n in (20, 40) for states in (512, 8192)} <= grid
    assert [str(variant) for variant in choose_variants(torch.device("cuda"), ["torch"], ["tf32"])] == [
        "torch tf32 eager"
    ]


def test_relative_numbers_start_at_the_first_row_that_ran() -> None:
    size = Size(16, 20, 512, 1024)
    bare = Result(size, Variant("log_sum_exp"), floor_ms=1.0, splits_ms=0.5, failure="OOM")
    slow = replace(bare, variant=Variant("log_einsum_exp"), failure="", times=Times(7.0, 8.0, 9.0), peak_bytes=4e6)
    fast = replace(slow, variant=Variant("torch"), times=Times(1.5, 2.0, 2.5), peak_bytes=1e6)
    lines = list(report.table([bare, slow, fast]))
    assert "16" in lines[0]
    assert [" ".join(line.split()) for line in lines[2:]] == [
        "log_sum_exp fp32 eager OOM 1.00",
        "log_einsum_exp fp32 eager 8.00 7.00 – 9.00 4.00 1.00 1.00 1.00 8.00 0.500",
        "torch fp32 eager 2.00 1.50 – 2.50 1.00 4.00 0.250 1.00 2.00 0.500",
    ]


def test_csv_rows_are_appended_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "new" / "inside.csv"
    result = Result(Size(1, 2, 3, 4), Variant("torch"), 1.0, 0.5, Times(1.0, 2.0, 3.0), 5e6)
    where = report.environment(CPU)
    passing = report.append_and_yield([result, replace(result, times=None, failure="OOM")], path, where)
    next(passing)
    assert len(path.read_text().splitlines()) == 2
    list(passing)
    with open(path, newline="") as stream:
        first, second = csv.DictReader(stream)
    assert (first["backend"], first["B"], first["ms_p50"], first["peak_mb"]) == ("torch", "1", "2.0", "5.0")
    assert (second["failure"], second["ms_p50"]) == ("OOM", "")
    assert tuple(first) == report.FIELDS
    assert first["torch"] == torch.__version__
    assert first["commit"]


def test_a_file_with_other_columns_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"mine\.csv:1"):
        report.append_rows(path, [{"c": 1}])
    assert path.read_text() == "a,b\n1,2\n"


def test_times_are_taken_in_turns_and_bounded() -> None:
    order: list[str] = []
    slow, fast = measure_in_turns([lambda: order.append("a"), lambda: order.append("b")], 2)
    assert order == ["a", "b"] * 3
    assert math.isfinite(slow.p50 + fast.p50)
    runs: list[int] = []
    measure(lambda: runs.append(1), CPU, repeats=4, budget_s=5.0)
    assert len(runs) == 5


@pytest.mark.gpu
def test_every_variant_on_a_gpu() -> None:
    gpu = torch.device("cuda")
    results = list(benchmark_inside([Size(2, 6, 64, 128)], choose_variants(gpu), gpu, repeats=3))
    assert all(result.times is not None and result.peak_bytes for result in results)
