"""`simplepcfg benchmark inside`: speed and memory of the inside algorithm on this machine."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.cli.options import Device, Quiet
from simplepcfg.cli.output import note, write_lines
from simplepcfg.cli.progress import shows_progress
from simplepcfg.cli.requests import flag, group, opt
from simplepcfg.progress import stage

if TYPE_CHECKING:
    from simplepcfg.benchmarking.inside import Result

SUMMARY = "Measure speed and memory on this machine."

app = group(
    """Measure speed and memory on this machine.

    \b
    Example:
      simplepcfg benchmark inside
    """
)


@app.command("inside", short_help="The inside algorithm, forward and backward, by backend.")
@shows_progress
def inside(
    sizes: list[str] | None = opt(
        "--sizes",
        "B,n,N,P",
        "Sentences, words, nonterminals, preterminals; repeatable.  [default: the paper's; on a CPU small]",
    ),
    backends: str | None = opt("--backends", "A,B", "Only these backends, separated by commas."),
    precision: str | None = opt("--precision", "bf16,tf32,fp32", "Only these precisions."),
    repeats: int = opt("--repeats", "N", "Runs to take the median of.", 20, min=1),
    csv: Path | None = opt("--csv", "FILE", "Append the rows to this CSV file, too."),
    quick: bool = flag("--quick", "One small size and few repeats."),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Measure speed and memory of the inside algorithm, forward + backward, for each backend.

    Times are medians in milliseconds; peak memory is what comes on top of the inputs (on a CPU: growth of the
    resident set of a process that runs it once). Speed × and memory × are relative to the first row that ran. The
    floor is the time of the matrix products alone at this machine's own rate for large ones; "splits ms" is what
    the sums over split points would take at its copying bandwidth. OOM: more memory than there is.

    \b
    Example:
      simplepcfg benchmark inside --quick
      simplepcfg benchmark inside --sizes 16,20,512,1024 --backends log_einsum_exp,torch --csv inside.csv
    """
    from simplepcfg.benchmarking import inside as benchmarking
    from simplepcfg.benchmarking import report
    from simplepcfg.benchmarking.sizes import Size
    from simplepcfg.benchmarking.timing import Machine
    from simplepcfg.runs.device import resolve_device

    place = resolve_device(device)
    chosen = [Size.parse(text) for text in sizes or ()] or benchmarking.default_sizes(place, quick)
    variants = benchmarking.choose_variants(place, _names(backends), _names(precision))
    if csv is not None:
        report.check_columns(csv)
    machine = Machine(place)
    with stage("measuring this machine"):
        description = report.describe(machine, [variant.precision for variant in variants])
    note(description, quiet)
    if place.type != "cuda" and backends is None:
        note(f"no GPU: {', '.join(benchmarking.GPU_ONLY)} are left out", quiet)
    count = min(repeats, 5) if quick else repeats
    results = benchmarking.benchmark_inside(chosen, variants, place, repeats=count, machine=machine)
    if csv is not None:
        results = report.append_and_yield(results, csv, report.environment(place))
    with stage("measuring", len(chosen) * len(variants)) as advance:
        for line in report.table(_counted(results, advance)):
            write_lines([line])


def _counted(results: "Iterable[Result]", advance: Callable[[float], None]) -> "Iterator[Result]":
    for result in results:
        advance(1)
        yield result


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]
