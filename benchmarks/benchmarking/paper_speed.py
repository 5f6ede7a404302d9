"""The paper's table of speed and memory, measured by the benchmark of the inside algorithm."""

from collections.abc import Iterable

from benchmarking.inside import PAPER_SIZES, Result
from benchmarking.report import FIELDS, as_row
from benchmarking.sizes import Size
from simplepcfg.plans.result_table import NOTHING, ResultTable

# For each algorithm of the paper, the backend that is compared with it, in fp32, and the published speed and memory at
# each of PAPER_SIZES (Liu et al. 2023, table 1, one A40).
PUBLISHED = {
    "log-sum-exp": ("log_sum_exp", (("1", "100"), ("1", "50"), ("", ""), ("", ""))),
    "log-einsum-exp": ("log_einsum_exp", (("4.8", "3"), ("16", "3"), ("1", "2"), ("1", "2.4"))),
    "FlashInside": ("triton", (("9.5", "1"), ("44", "1"), ("6", "1"), ("39", "1"))),
}
COLUMNS = {"size": False, "algorithm": False, "backend": False} | dict.fromkeys(
    ("median (ms)", "peak (MB)", "speed ×, ours", "speed ×, paper", "memory ×, ours", "memory ×, paper"), True
)
RATIOS = ("speed_ratio", "memory_ratio", "paper_speed_ratio", "paper_memory_ratio")
EXPLANATION = (
    "Speed is relative to the first algorithm that runs at this size, memory to FlashInside here (`triton` in "
    "fp32, kernel by kernel), and on a CPU to `torch`. Sizes are sentences x words x nonterminals x preterminals. "
    "Paper: Liu et al. 2023, table 1, measured on one A40. A – stands for what does not fit in memory or is not in the "
    "paper."
)


def speed_table(results: Iterable[Result], where: dict[str, object]) -> ResultTable:
    """Return the results of each size, relative to one another and beside the paper's; ``where`` is the machine."""
    cells, rows = [], []
    groups: dict[Size, list[Result]] = {}
    for result in results:
        groups.setdefault(result.size, []).append(result)
    for size, group in groups.items():
        slowest = next((each.times.p50 for each in group if each.times), None)
        plain = {each.variant.backend: each.peak_bytes for each in group if _is_plain(each)}
        reference = plain.get("triton", plain.get("torch"))
        for each in group:
            speed = slowest / each.times.p50 if slowest and each.times else None
            memory = each.peak_bytes / reference if each.peak_bytes and reference else None
            algorithm, paper = _published(each)
            row = as_row(each, where) | dict(zip(RATIOS, (speed, memory, *paper), strict=True))
            numbers = [_shown(value) for value in (row["ms_p50"], row["peak_mb"], speed, memory)]
            name = "x".join(map(str, (size.batch, size.n, size.nonterminals, size.preterminals)))
            texts = [*numbers[:3], paper[0], numbers[3], paper[1]]
            cells.append([name, algorithm, str(each.variant), *(text or NOTHING for text in texts)])
            rows.append(row)
    title = "Speed and memory of the inside algorithm, forward and backward"
    return ResultTable(title, COLUMNS, cells, (*FIELDS, *RATIOS), rows, before=[EXPLANATION])


def _published(result: Result) -> tuple[str, tuple[str, str]]:
    """Return the paper's name of an algorithm, and its speed and memory at this size as printed; "" for others."""
    for name, (backend, figures) in PUBLISHED.items():
        if backend == result.variant.backend and _is_plain(result):
            return name, figures[PAPER_SIZES.index(result.size)] if result.size in PAPER_SIZES else ("", "")
    return "", ("", "")


def _is_plain(result: Result) -> bool:
    """Tell whether it was measured as in the paper: in float32, without CUDA graphs."""
    return (result.variant.precision, result.variant.mode) == ("fp32", "eager")


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) and value < 1000 else f"{value:.0f}" if value else ""
