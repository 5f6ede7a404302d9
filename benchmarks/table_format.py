"""How measured tables of the documentation are described, and how their cells are written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev

Row = Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """Which results are shown and how: `columns` are headers by column, `setting` tells rows apart.

    Without `columns` every one that is not about the machine is shown, and without `setting` all rows of the commit
    that was measured last. A column in which no row has anything is left out.
    """

    csv: str
    command: str  # what measures it
    columns: Mapping[str, str] | None = None
    setting: Sequence[str] = ()
    keep: Callable[[Row], bool] = lambda row: True  # the rest is in the CSV file only
    # Rows that differ in these columns alone become one, with what each of these makes of their values.
    fold: Mapping[str, Callable[[Sequence[str]], str]] = field(default_factory=dict)


def mean_and_deviation(values: Sequence[str]) -> str:
    """Of the runs of one setting; the standard deviation where there are several."""
    if len(values) == 1:
        return values[0]
    if not all(values):
        return ""
    numbers = [float(value) for value in values]
    return f"{mean(numbers):.1f} ± {stdev(numbers):.1f}"


def cell(value: str) -> str:
    """Text as it is, numbers to four significant digits, nothing as a dash."""
    if not value:
        return "–"
    if not is_number(value):
        return value.replace("|", "\\|")
    number = float(value)
    if number == int(number) and "." not in value:
        return f"{int(number):,}"
    digits = max(0, 3 - len(str(int(abs(number)))) + 1) if abs(number) >= 1 else 4
    return f"{number:,.{digits}f}"


def is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
