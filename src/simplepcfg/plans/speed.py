"""The paper's table of speed and memory: `simplepcfg benchmark inside`, measured once a size, backend and machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from simplepcfg.benchmarking.inside import (
    PAPER_SIZES,
    PRECISIONS,
    Variant,
    benchmark_inside,
    choose_variants,
    default_sizes,
)
from simplepcfg.benchmarking.report import FIELDS, as_row, environment, machine_name
from simplepcfg.benchmarking.sizes import Size
from simplepcfg.benchmarking.timing import Machine
from simplepcfg.plans.result_table import NOTHING, ResultTable
from simplepcfg.plans.state import Key, Record, ReproductionFolder
from simplepcfg.plans.tables import SpeedRow, setting_name, speed_rows, speed_title
from simplepcfg.runs.device import resolve_device

REPEATS = 20
REPORT_NUMBERS = ("B", "n", "N", "P", "ms_p50", "peak_mb")


def reproduce_speed(
    out: str | Path,
    *,
    rows: Sequence[str] | None = None,
    device: str = "auto",
    repeats: int = REPEATS,
    remark: Callable[[str], None] = lambda text: None,
) -> list[SpeedLine]:
    """Measure what has no result yet, and return the lines of the table of speed.

    `rows` are sizes such as 16x20x512x1024 (B, n, N, P). Without it they are the paper's four on a GPU, and smaller
    ones on a CPU.
    """
    place = resolve_device(device)
    sizes = PAPER_SIZES if place.type == "cuda" else default_sizes(place)
    if rows is not None:
        sizes = tuple(Size.parse(text, "x") for text in rows)
    variants = choose_variants(place)
    folder = ReproductionFolder(Path(out), REPORT_NUMBERS)
    folder.open("speed", None, ())
    folder.read_results()  # damaged ones are refused before anything is measured
    machine = Machine(place)
    where = machine_name(place)
    for size in sizes:
        for variant in variants:
            key = _key(size, variant, where)
            if key in folder.read_results():
                continue
            remark(f"{size}: {variant}")
            (result,) = benchmark_inside([size], [variant], place, repeats=repeats, machine=machine)
            row = as_row(result, environment(place))
            folder.append({"table": "speed", "row": key[0], "language": key[1], "seed": key[2], "report": row})
            folder.write(speed_table(_lines(folder)))
    lines = _lines(folder)
    folder.write(speed_table(lines))
    return lines


def _lines(folder: ReproductionFolder) -> list[SpeedLine]:
    return speed_lines([(where, record["report"]) for (_, where, _), record in folder.read_results().items()])


def _key(size: Size, variant: Variant, where: str) -> Key:
    """Return what a measurement is known by: its size, what was measured and the machine."""
    sizes = (size.batch, size.n, size.nonterminals, size.preterminals)
    return f"{'x'.join(map(str, sizes))} {variant}", where, 0


# Name of each column, and whether it holds numbers.
COLUMNS = {
    "size": False,
    "algorithm": False,
    "backend": False,
    "precision": False,
    "mode": False,
    "median (ms)": True,
    "peak (MB)": True,
    "speed ×, ours": True,
    "speed ×, paper": True,
    "memory ×, ours": True,
    "memory ×, paper": True,
    "machine": False,
}
EXPLANATION = (
    "Speed is relative to the first algorithm that runs at this size on this machine, memory to FlashInside as the "
    "paper describes it (`paper_recompute` in fp32; where that cannot run, as on a CPU, to `torch`). Sizes are "
    "sentences x words x nonterminals x preterminals. Paper: Liu et al. 2023, table 1, measured on one A40. A – "
    "stands for what does not fit in memory, was not measured, or is not in the paper."
)
FLASH_INSIDE, ON_A_CPU = "paper_recompute", "torch"  # what memory is relative to
OTHER_ALGORITHMS = {"paper": "FlashInside, sums of splits saved", "torch": "ours", "triton": "ours"}
Report = Record  # a row of `simplepcfg benchmark inside --csv`


@dataclass(frozen=True, slots=True)
class SpeedLine:
    """One algorithm at one size on one machine."""

    report: Report
    machine: str  # "" where it was not measured
    speed: float | None  # relative to the first algorithm that runs
    memory: float | None  # relative to FlashInside
    paper: SpeedRow | None  # the paper's row of this algorithm

    @property
    def algorithm(self) -> str:
        """Return the paper's name of the algorithm; "ours" for our own."""
        names = OTHER_ALGORITHMS | {row.backend: row.name for row in speed_rows()}
        return names.get(self.report["backend"], "")

    @property
    def setting(self) -> str:
        """Return the paper's setting that has this size, or ""."""
        values = self.report
        is_paper = values["P"] == 2 * values["N"] and values.get("lengths", "equal") == "equal"
        return setting_name(values["N"], values["n"]) if is_paper else ""

    @property
    def paper_speed(self) -> str:
        """As published, or ""."""
        return self.paper.speed.get(self.setting, "") if self.paper else ""

    @property
    def paper_memory(self) -> str:
        """As published, or ""."""
        return self.paper.memory.get(self.setting, "") if self.paper else ""

    @property
    def source(self) -> str:
        """Return where the published figures stand, if there are any."""
        return self.paper.source if self.paper and (self.paper_speed or self.paper_memory) else ""

    @property
    def cells(self) -> list[str]:
        """Return the cells of this line under `COLUMNS`."""
        report = self.report
        numbers = (_shown(report["ms_p50"]), _shown(report["peak_mb"]))
        relative = (_shown(self.speed, 3), self.paper_speed, _shown(self.memory, 3), self.paper_memory)
        texts = [
            *("x".join(str(report[key]) for key in ("B", "n", "N", "P")), self.algorithm),
            *(report["backend"], report["precision"], report["mode"], *numbers, *relative, self.machine),
        ]
        return [text or NOTHING for text in texts]


def speed_lines(measured: Iterable[tuple[str, Report]]) -> list[SpeedLine]:
    """Return the lines of all measurements, given as machine and report, and of every row and setting of the paper."""
    groups: dict[tuple[str, Size], list[Report]] = {}
    for machine, report in measured:
        size = Size(*(report[key] for key in ("B", "n", "N", "P")))
        groups.setdefault((machine, size), []).append(report)
    lines = []
    for (machine, size), reports in groups.items():
        lines += _group(machine, [*reports, *_not_measured(size, reports)])
    settings = {line.setting for line in lines}
    for size in PAPER_SIZES:
        if setting_name(size.nonterminals, size.n) not in settings:
            lines += _group("", _not_measured(size, ()))
    return lines


def speed_table(lines: Sequence[SpeedLine]) -> ResultTable:
    """Return the lines as a table; its CSV has the columns of `benchmark inside --csv` before ours."""
    added = ("algorithm", "speed_ratio", "memory_ratio", "paper_speed_ratio", "paper_memory_ratio", "source")
    rows = []
    for line in lines:
        values = (line.algorithm, line.speed, line.memory, line.paper_speed, line.paper_memory, line.source)
        rows.append({**line.report, **dict(zip(added, values, strict=True))})
    return ResultTable(
        speed_title(), COLUMNS, [line.cells for line in lines], (*FIELDS, *added), rows, before=[EXPLANATION]
    )


def _group(machine: str, reports: Sequence[Report]) -> list[SpeedLine]:
    """Return the lines of one size on one machine, in the benchmark's order: the slowest algorithm first."""
    order = list(PRECISIONS)
    ordered = sorted(reports, key=lambda report: order.index(report["backend"]) if report["backend"] in order else 99)
    slowest = next((report["ms_p50"] for report in ordered if report["ms_p50"]), None)
    smallest = _reference_peak(ordered)
    lines = []
    for report in ordered:
        time, peak = report["ms_p50"], report["peak_mb"]
        speed = slowest / time if slowest and time else None
        memory = peak / smallest if smallest and peak else None
        lines.append(SpeedLine(report, machine if _is_measured(report) else "", speed, memory, _paper_row(report)))
    return lines


def _reference_peak(reports: Sequence[Report]) -> float | None:
    """Return the megabytes of FlashInside; of our own backend where the paper's kernels cannot run."""
    plain = {report["backend"]: report for report in reports if _is_plain(report) and _is_measured(report)}
    reference = plain.get(FLASH_INSIDE, plain.get(ON_A_CPU))
    return None if reference is None else reference["peak_mb"]


def _not_measured(size: Size, reports: Sequence[Report]) -> list[Report]:
    """Return empty reports of the paper's algorithms at a size of the paper's, where `reports` have none."""
    sizes = {"B": size.batch, "n": size.n, "N": size.nonterminals, "P": size.preterminals}
    setting = setting_name(size.nonterminals, size.n)
    measured = {report["backend"] for report in reports if _is_plain(report)}
    is_paper = size.preterminals == 2 * size.nonterminals and any(setting in row.speed for row in speed_rows())
    return [
        {**sizes, "backend": row.backend, "precision": "fp32", "mode": "eager", "ms_p50": None, "peak_mb": None}
        for row in speed_rows()
        if is_paper and row.backend not in measured
    ]


def _paper_row(report: Report) -> SpeedRow | None:
    if not _is_plain(report):
        return None
    return next((row for row in speed_rows() if row.backend == report["backend"]), None)


def _is_measured(report: Report) -> bool:
    """Tell whether it is of a benchmark, which says when it ran."""
    return "when" in report


def _is_plain(report: Report) -> bool:
    """Tell whether it was measured as in the paper: in float32, without CUDA graphs."""
    return report["precision"] == "fp32" and report["mode"] == "eager"


def _shown(value: float | None, digits: int = 4) -> str:
    """Format a number with so many digits, and all of a larger number's integer part."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
