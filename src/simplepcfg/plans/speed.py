"""The paper's table of speed and memory: `simplepcfg benchmark inside`, measured once a size, backend and machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from simplepcfg.benchmarking.inside import PAPER_SIZES, Variant, benchmark_inside, choose_variants, default_sizes
from simplepcfg.benchmarking.report import as_row, environment, machine_name
from simplepcfg.benchmarking.sizes import Size
from simplepcfg.benchmarking.timing import Machine
from simplepcfg.plans.speed_lines import SpeedLine, speed_lines, speed_table
from simplepcfg.plans.state import Key, ReproductionFolder
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
