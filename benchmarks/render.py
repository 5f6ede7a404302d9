"""Fill the measured tables of the documentation from results/*.csv, and write the page of configuration keys.

    python benchmarks/render.py            # rewrite the pages
    python benchmarks/render.py --check    # say whether it is up to date, and change nothing

A table stands between `<!-- begin: NAME -->` and `<!-- end: NAME -->`, where NAME is one of TABLES in
result_tables.py. Results are only ever appended, so the last row of each setting is the one that is shown.
"""

import argparse
import csv
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from configuration_page import config_reference
from result_tables import TABLES
from table_format import Row, Table, cell, is_number

RESULTS = Path(__file__).parent / "results"
PAGES = tuple(
    Path(__file__).parent.parent / name
    for name in (
        "docs/data.md",
        "docs/models.md",
        "docs/performance.md",
        "docs/pictures.md",
        "docs/recipes.md",
        "docs/reproduce.md",
        "docs/trees.md",
        "docs/linguists.md",
    )
)
CONFIGURATION = Path(__file__).parent.parent / "docs" / "configuration.md"
MARKED = re.compile(r"(<!-- begin: (?P<name>[\w-]+) -->\n).*?(<!-- end: (?P=name) -->)", re.DOTALL)
# Where and with what a row was measured: all of it is in the CSV file, this is said once below a table.
PROVENANCE = {"machine": "{}", "threads": "{} CPU threads", "torch": "torch {}", "commit": "commit {}"}
UNSHOWN = {*PROVENANCE, "device", "python", "triton", "simplepcfg", "when"}


def main() -> int:
    """Render every page; with --check, 1 if one of them is out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail if something would change")
    check = parser.parse_args().check
    stale = 0
    for page in (*PAGES, CONFIGURATION):
        before = page.read_text(encoding="utf-8")
        after = config_reference() if page == CONFIGURATION else render(before)
        if after == before:
            continue
        stale += 1
        if check:
            print(f"{page.name} is out of date; run: python benchmarks/render.py", file=sys.stderr)
        else:
            page.write_text(after, encoding="utf-8")
            print(f"{page.name}: tables written")
    return 1 if check and stale else 0


def render(text: str, results: Path = RESULTS) -> str:
    """A page with all its tables made anew; a marker that names no table is a KeyError."""
    return MARKED.sub(lambda match: match[1] + block(TABLES[match["name"]], results) + match[3], text)


def block(table: Table, results: Path = RESULTS) -> str:
    """What stands between two markers."""
    path = results / table.csv
    rows = read(path) if path.exists() else []
    not_measured = f"Not measured yet: run `{table.command}`.\n"
    if not rows:
        return not_measured
    columns = table.columns or {name: name for name in rows[0] if name not in UNSHOWN}
    missing = [name for name in (*columns, *table.setting) if name not in rows[0]]
    if missing:
        raise KeyError(f"{path}: no column {missing[0]}; mend TABLES in result_tables.py")
    chosen = folded([row for row in latest(rows, table.setting) if table.keep(row)], table)
    if not chosen:
        return not_measured
    columns = {name: header for name, header in columns.items() if any(row[name] for row in chosen)}
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "".join(_ruler(chosen, name) for name in columns)]
    lines += ["| " + " | ".join(cell(row[name]) for name in columns) + " |" for row in chosen]
    return "\n".join([*lines, "", provenance(chosen, table.command), ""])


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file of results."""
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def latest(rows: Sequence[Row], setting: Sequence[str]) -> list[Row]:
    """The last row of each setting, in their order of appearance; all rows of the last commit if there is none."""
    if not setting:
        return [row for row in rows if row.get("commit") == rows[-1].get("commit")]
    return list({tuple(row.get(name, "") for name in setting): row for row in rows}.values())


def folded(rows: Sequence[Row], table: Table) -> list[Row]:
    """One row for all that differ in the folded columns alone; rows with the same first setting stand together."""
    if not table.fold:
        return list(rows)
    groups: dict[tuple[str, ...], list[Row]] = {}
    first = table.setting[0]
    appearance = list(dict.fromkeys(row.get(first, "") for row in rows))
    rows = sorted(rows, key=lambda row: appearance.index(row.get(first, "")))
    for row in rows:
        alike = tuple(row.get(name, "") for name in table.setting if name not in table.fold)
        groups.setdefault(alike, []).append(row)
    return [
        {**group[-1], **{name: make([row[name] for row in group]) for name, make in table.fold.items()}}
        for group in groups.values()
    ]


def provenance(rows: Iterable[Row], command: str) -> str:
    """One line about machine and versions, and how to measure again."""
    seen: dict[str, list[str]] = {}
    for row in rows:
        for name in PROVENANCE:
            if row.get(name) and row[name] not in seen.setdefault(name, []):
                seen[name].append(row[name])
    parts = [PROVENANCE[name].format(", ".join(values)) for name, values in seen.items() if values]
    return f"Measured by `{command}`: {'; '.join(parts)}."


def _ruler(rows: Iterable[Row], name: str) -> str:
    return "---:|" if all(is_number(row[name]) for row in rows if row[name]) else "---|"


if __name__ == "__main__":
    sys.exit(main())
