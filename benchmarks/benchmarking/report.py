"""Benchmark results as a text table and as rows of a CSV file, with the machine and the versions."""

import csv
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import torch

from benchmarking.inside import Result
from benchmarking.timing import Machine
from simplepcfg.errors import InputError
from simplepcfg.version import current_commit

COLUMNS = (
    f"{'backend':<16}{'precision':<11}{'mode':<7}{'ms':>10}  {'p20 – p80':<20}{'peak MB':>10}"
    f"{'speed ×':>10}{'memory ×':>10}{'floor ms':>11}{'× floor':>9}{'splits ms':>11}"
)

# Columns of the CSV file: the environment, what was measured, and the result.
ENVIRONMENT = ("when", "machine", "threads", "torch", "triton", "python", "commit")
FIELDS = (
    *ENVIRONMENT,
    *("backend", "precision", "mode", "B", "n", "N", "P", "lengths"),
    *("ms_p20", "ms_p50", "ms_p80", "peak_mb", "floor_ms", "splits_ms", "ratio", "failure"),
)


def table(results: Iterable[Result]) -> Iterator[str]:
    """Yield the lines of a table as results arrive, relative to the first row of the same size that ran."""
    size, baseline = None, None
    for result in results:
        if result.size != size:
            yield from ([""] if size is not None else [])
            size, baseline = result.size, None
            yield f"{size}, forward + backward"
            yield COLUMNS
        if baseline is None and result.times is not None:
            baseline = result
        yield _line(result, baseline)


def append_and_yield(results: Iterable[Result], path: Path, where: Mapping[str, object]) -> Iterator[Result]:
    """Append each result to a CSV file and yield it, so that an interrupted run loses none."""
    for result in results:
        append_rows(path, [as_row(result, where)])
        yield result


def _line(result: Result, baseline: Result | None) -> str:
    variant = result.variant
    start = f"{variant.backend:<16}{variant.precision:<11}{variant.mode:<7}"
    end = f"{_number(result.floor_ms):>11}{_number(result.ratio):>9}{_number(result.splits_ms):>11}"
    if result.times is None or baseline is None or baseline.times is None:
        return f"{start}{result.failure:>10}{'':62}{_number(result.floor_ms):>11}"
    times = result.times
    spread = f"{_number(times.p20)} – {_number(times.p80)}"
    peak, other = result.peak_bytes, baseline.peak_bytes
    memory = peak / other if peak and other else None
    return (
        f"{start}{_number(times.p50):>10}  {spread:<20}{_number(peak and peak / 1e6):>10}"
        f"{_number(baseline.times.p50 / times.p50):>10}{_number(memory):>10}{end}"
    )


def _number(value: float | None) -> str:
    """Format a number with three digits, or more if it is larger."""
    if value is None:
        return "–"
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 3
    return f"{value:.{digits}f}"


def describe(machine: Machine, precisions: Iterable[str]) -> str:
    """Return one line with the machine and its measured peak rates."""
    rates = ", ".join(
        f"{machine.flops_per_second(name) / 1e12:.4g} TFLOP/s {name}" for name in dict.fromkeys(precisions)
    )
    threads = "" if machine.device.type == "cuda" else f", threads: {torch.get_num_threads()}"
    return f"{machine_name(machine.device)}{threads}: {rates}, {machine.bytes_per_second / 1e9:.4g} GB/s"


def environment(device: torch.device, commit: str | None = None) -> dict[str, object]:
    """Return the time, the machine, the versions and the commit of a measurement."""
    values = (
        datetime.now(UTC).isoformat(timespec="seconds"),
        machine_name(device),
        torch.get_num_threads(),
        torch.__version__,
        _package_version("triton"),
        platform.python_version(),
        commit or current_commit(),
    )
    return dict(zip(ENVIRONMENT, values, strict=True))


def as_row(result: Result, where: Mapping[str, object]) -> dict[str, object]:
    """Convert a result to a row of the CSV file."""
    size, variant, times = result.size, result.variant, result.times
    kind = "equal" if size.lengths is None else "mixed"
    what = (variant.backend, variant.precision, variant.mode)
    sizes = (size.batch, size.n, size.nonterminals, size.preterminals, kind)
    milliseconds = (times.p20, times.p50, times.p80) if times else (None, None, None)
    megabytes = None if result.peak_bytes is None else result.peak_bytes / 1e6
    numbers = (*milliseconds, megabytes, result.floor_ms, result.splits_ms, result.ratio)
    rounded = (None if number is None else round(number, 4) for number in numbers)
    return dict(zip(FIELDS, (*where.values(), *what, *sizes, *rounded, result.failure), strict=True))


def append_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Append rows to a CSV file, with a header if it is new; InputError if the file has other columns."""
    if not rows:
        return
    names = list(rows[0])
    check_columns(path, names)
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists() or path.stat().st_size == 0
    with open(path, "a", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)


def check_columns(path: Path, names: Sequence[str] = FIELDS) -> None:
    """Raise InputError if a file has other columns, before minutes are spent on measuring."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with open(path, newline="", encoding="utf-8") as stream:
        header = next(csv.reader(stream), [])
    if header != list(names):
        raise InputError(f"{path}:1: the columns are not those of this benchmark; name another file")


def machine_name(device: torch.device) -> str:
    """Return the name of the GPU, or of the processor if the system knows it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _package_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"
