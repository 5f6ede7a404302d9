"""Speed relative to the first algorithm that runs, memory relative to FlashInside, beside the paper's figures."""

from benchmarking.inside import PAPER_SIZES, Result, Variant
from benchmarking.paper_speed import speed_table
from benchmarking.timing import Times


def test_relative_to_the_papers_references() -> None:
    """What does not fit is a dash, and the next algorithm is the reference."""

    def result(backend: str, ms: float | None, mb: float, precision: str = "fp32", size: int = 0) -> Result:
        times = None if ms is None else Times(ms, ms, ms)
        return Result(PAPER_SIZES[size], Variant(backend, precision), 1.0, 1.0, times, times and mb * 1e6)

    results = [
        result("log_sum_exp", 80.0, 4000.0),
        result("log_einsum_exp", 20.0, 100.0),
        result("torch", 5.0, 60.0),
        result("triton", 10.0, 50.0),
        result("triton", 2.0, 30.0, "bf16"),
        result("log_sum_exp", None, 0.0, size=3),
        result("log_einsum_exp", 3000.0, 12.0, size=3),
    ]
    table = speed_table(results, dict.fromkeys(("when", "machine", "threads", "torch", "triton", "python", "commit")))
    assert [line[1:2] + line[3:] for line in table.cells] == [
        ["log-sum-exp", "80", "4000", "1", "1", "80", "100"],
        ["log-einsum-exp", "20", "100", "4", "4.8", "2", "3"],
        ["", "5", "60", "16", "–", "1.2", "–"],
        ["FlashInside", "10", "50", "8", "9.5", "1", "1"],
        ["", "2", "30", "40", "–", "0.6", "–"],
        ["log-sum-exp", "–", "–", "–", "–", "–", "–"],
        ["log-einsum-exp", "3000", "12", "1", "1", "–", "2.4"],
    ]
    assert "1,100\n" in table.csv()
