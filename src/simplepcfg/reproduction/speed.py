"""The paper's table of speed and memory: `simplepcfg benchmark inside`, measured once a size, backend and machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simplepcfg.benchmarking.inside import Variant, benchmark_inside, choose_variants, default_sizes
from simplepcfg.benchmarking.report import append_rows, as_row, check_columns, environment, machine_name
from simplepcfg.benchmarking.sizes import Size
from simplepcfg.benchmarking.timing import Machine
from simplepcfg.evaluation.rendering import escape_markdown, markdown_table
from simplepcfg.reproduction.state import Key, ReproductionFolder
from simplepcfg.training.device import resolve_device
from simplepcfg.training.files import write_text

if TYPE_CHECKING:
    from rich.table import Table

TITLE = "Speed and memory of the inside algorithm, forward and backward"
HEADER = ["size", "backend", "precision", "mode", "median (ms)", "peak (MB)", "paper", "machine"]
REPEATS = 20
REPORT_NUMBERS = ("ms_p50", "peak_mb")


def reproduce_speed(
    out: str | Path,
    *,
    rows: Sequence[str] | None = None,
    device: str = "auto",
    repeats: int = REPEATS,
    remark: Callable[[str], None] = lambda text: None,
) -> list[list[str]]:
    """Cells of the table under `HEADER`; `rows` are sizes such as 16x20x512x1024 (B, n, N, P), the paper's otherwise.

    Times hold for the machine that they were measured on, so no published ones stand beside these.
    """
    place = resolve_device(device)
    sizes = [Size.parse(text.replace("x", ",")) for text in rows] if rows is not None else default_sizes(place)
    variants = choose_variants(place)
    folder = ReproductionFolder(Path(out), REPORT_NUMBERS)
    folder.open("speed", None, ())
    check_columns(folder.csv)
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
            append_rows(folder.csv, [row])
            _write(folder)
    return _cells(folder.read_results())


def rich_cells(cells: Sequence[Sequence[str]]) -> Table:
    """For a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(TITLE), box=box.SIMPLE_HEAD, title_justify="left")
    for name in HEADER:
        drawn.add_column(Text(name), justify="right" if name.startswith(("median", "peak")) else "left")
    for row in cells:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn


def _write(folder: ReproductionFolder) -> None:
    rows = [[escape_markdown(cell) for cell in row] for row in _cells(folder.read_results())]
    write_text(folder.markdown, f"# {TITLE}\n\n{markdown_table(HEADER, rows, words=(0, 1, 2, 3, 6, 7))}\n")


def _key(size: Size, variant: Variant, where: str) -> Key:
    """A measurement is known by its size, what was measured and the machine."""
    sizes = (size.batch, size.n, size.nonterminals, size.preterminals)
    return f"{'x'.join(map(str, sizes))} {variant}", where, 0


def _cells(results: Mapping[Key, dict[str, Any]]) -> list[list[str]]:
    cells = []
    for (name, where, _), record in results.items():
        row = record["report"]
        time = row.get("failure") or _shown(row["ms_p50"])
        peak = _shown(row["peak_mb"])
        size, *variant = name.split(" ")
        cells.append([size, *variant, time, peak, "not quoted here", where])
    return cells


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
