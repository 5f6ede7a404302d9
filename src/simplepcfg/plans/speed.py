"""The paper's table of speed and memory: `simplepcfg benchmark inside`, measured once a size, backend and machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.benchmarking.inside import PAPER_SIZES, Variant, benchmark_inside, choose_variants, default_sizes
from simplepcfg.benchmarking.report import as_row, environment, machine_name
from simplepcfg.benchmarking.sizes import Size
from simplepcfg.benchmarking.timing import Machine
from simplepcfg.evaluation.rendering import escape_markdown, markdown_table
from simplepcfg.files import write_text
from simplepcfg.plans.speed_lines import COLUMNS, SpeedLine, speed_csv, speed_lines
from simplepcfg.plans.state import Key, ReproductionFolder
from simplepcfg.plans.tables import speed_title
from simplepcfg.runs.device import resolve_device

if TYPE_CHECKING:
    from rich.table import Table

REPEATS = 20
REPORT_NUMBERS = ("B", "n", "N", "P", "ms_p50", "peak_mb")
EXPLANATION = (
    "Speed is relative to the first algorithm that runs at this size on this machine, memory to FlashInside as the "
    "paper describes it (`paper_recompute` in fp32; where that cannot run, as on a CPU, to `torch`). Sizes are "
    "sentences x words x nonterminals x preterminals. Paper: Liu et al. 2023, table 1, measured on one A40. A – "
    "stands for what does not fit in memory, was not measured, or is not in the paper."
)


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
            _write(folder)
    _write(folder)
    return _lines(folder)


def rich_speed(lines: Sequence[SpeedLine]) -> Table:
    """Return the table of speed for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(speed_title()), box=box.SIMPLE_HEAD, title_justify="left")
    for name, is_number in COLUMNS.items():
        drawn.add_column(Text(name), justify="right" if is_number else "left")
    for line in lines:
        drawn.add_row(*(Text(cell) for cell in line.cells))
    return drawn


def _lines(folder: ReproductionFolder) -> list[SpeedLine]:
    return speed_lines([(where, record["report"]) for (_, where, _), record in folder.read_results().items()])


def _write(folder: ReproductionFolder) -> None:
    """table.md and table.csv, made of all results."""
    lines = _lines(folder)
    cells = [[escape_markdown(cell) for cell in line.cells] for line in lines]
    words = [number for number, is_number in enumerate(COLUMNS.values()) if not is_number]
    page = markdown_table(list(COLUMNS), cells, words=words)
    write_text(folder.markdown, f"# {speed_title()}\n\n{EXPLANATION}\n\n{page}\n")
    write_text(folder.csv, speed_csv(lines))


def _key(size: Size, variant: Variant, where: str) -> Key:
    """A measurement is known by its size, what was measured and the machine."""
    sizes = (size.batch, size.n, size.nonterminals, size.preterminals)
    return f"{'x'.join(map(str, sizes))} {variant}", where, 0
