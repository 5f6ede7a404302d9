"""Speed relative to the first algorithm that runs, memory relative to FlashInside, beside the paper's figures."""

import csv
import io
from typing import Any

from simplepcfg.plans.speed import COLUMNS, NOTHING, SpeedLine, speed_lines, speed_table
from simplepcfg.plans.tables import speed_rows


def report(
    backend: str,
    ms: float | None,
    mb: float | None,
    precision: str = "fp32",
    sizes: tuple[int, ...] = (16, 20, 512, 1024),
) -> tuple[str, dict[str, Any]]:
    values = {"when": "now", "backend": backend, "precision": precision, "mode": "eager", "lengths": "equal"}
    failure = "OOM" if ms is None else ""
    return "H200", values | dict(zip("BnNP", sizes, strict=True)) | {"ms_p50": ms, "peak_mb": mb, "failure": failure}


def cells(line: SpeedLine) -> dict[str, str]:
    return dict(zip(COLUMNS, line.cells, strict=True))


def test_relative_to_the_papers_references() -> None:
    """In whatever order the results were written."""
    measured = [
        report("triton", 2.0, 30.0, "bf16"),
        report("paper_recompute", 10.0, 40.0, "tf32"),
        report("paper_recompute", 10.0, 50.0),
        report("log_einsum_exp", 20.0, 100.0),
        report("log_sum_exp", 80.0, 4000.0),
    ]
    lines = [cells(line) for line in speed_lines(measured)][:5]
    names = ("algorithm", "precision", *(name for name in COLUMNS if "×" in name))
    assert [[line[name] for name in names] for line in lines] == [
        ["log-sum-exp", "fp32", "1", "1", "80", "100"],
        ["log-einsum-exp", "fp32", "4", "4.8", "2", "3"],
        ["FlashInside", "tf32", "8", NOTHING, "0.8", NOTHING],
        ["FlashInside", "fp32", "8", "9.5", "1", "1"],
        ["ours", "bf16", "40", NOTHING, "0.6", NOTHING],
    ]


def test_what_does_not_fit_is_a_dash_and_the_next_row_is_the_reference() -> None:
    size = (16, 40, 8192, 16384)
    measured = [
        report("log_sum_exp", None, None, sizes=size),
        report("log_einsum_exp", 300.0, 12.0, sizes=size),
        report("paper_recompute", 100.0, 4.0, sizes=size),
    ]
    first, second, third = (cells(line) for line in speed_lines(measured)[:3])
    assert {first[name] for name in COLUMNS if "×" in name or "(" in name} == {NOTHING}
    assert [second[name] for name in COLUMNS if "×" in name] == ["1", "1", "3", "2.4"]
    assert [third[name] for name in COLUMNS if "×" in name] == ["3", "39", "1", "1"]


def test_every_row_of_the_paper_is_there_before_anything_is_measured() -> None:
    lines = speed_lines([])
    assert len(lines) == 4 * len(speed_rows())
    assert {line.machine for line in lines} == {""}
    published = {(line.algorithm, line.setting): (line.paper_speed, line.paper_memory) for line in lines}
    for row in speed_rows():
        for setting in ("N = 512, n = 20", "N = 512, n = 40", "N = 8192, n = 20", "N = 8192, n = 40"):
            assert published[row.name, setting] == (row.speed.get(setting, ""), row.memory.get(setting, ""))


def test_a_machine_that_cannot_run_the_papers_kernels_has_their_row_and_another_reference() -> None:
    size = (4, 20, 512, 1024)
    measured = [report("log_sum_exp", 80.0, 300.0, sizes=size), report("torch", 20.0, 100.0, sizes=size)]
    lines = [cells(line) for line in speed_lines(measured) if line.report["B"] == 4]
    assert [line["algorithm"] for line in lines] == ["log-sum-exp", "log-einsum-exp", "FlashInside", "ours"]
    assert [line["memory ×, ours"] for line in lines] == ["3", NOTHING, NOTHING, "1"]
    assert [line["memory ×, paper"] for line in lines] == ["100", "3", "1", NOTHING]
    assert [line["machine"] for line in lines] == ["H200", NOTHING, NOTHING, "H200"]


def test_large_numbers_are_written_out() -> None:
    measured = [report("log_sum_exp", 11131.6, 2019.04), report("log_einsum_exp", 3.0, 46.625)]
    first, second = (cells(line) for line in speed_lines(measured)[:2])
    assert (first["median (ms)"], first["peak (MB)"], second["peak (MB)"]) == ("11132", "2019", "46.62")
    assert second["speed ×, ours"] == "3711"


def test_other_sizes_have_no_published_figures() -> None:
    line = speed_lines([report("log_sum_exp", 1.0, 1.0, sizes=(16, 20, 512, 512))])[0]
    assert (line.paper_speed, line.paper_memory, line.source) == ("", "", "")


def test_csv_has_both() -> None:
    lines = speed_lines([report("log_sum_exp", 80.0, 300.0), report("log_einsum_exp", 20.0, 100.0)])
    rows = list(csv.DictReader(io.StringIO(speed_table(lines).csv())))
    assert [row["backend"] for row in rows[:3]] == ["log_sum_exp", "log_einsum_exp", "paper_recompute"]
    assert (rows[1]["ms_p50"], rows[1]["speed_ratio"], rows[1]["paper_speed_ratio"]) == ("20.0", "4.0", "4.8")
    assert (rows[1]["memory_ratio"], rows[1]["paper_memory_ratio"]) == ("", "3")
    assert rows[1]["source"] == "Liu et al. 2023, table 1 (one A40)"
