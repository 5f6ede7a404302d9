"""Writes the tables of all plans beside this file into README.md, between its markers.

    python experiments/render.py [--check]

With --check nothing is written, and the exit code is 1 if something would be.
"""

import csv
import sys
from pathlib import Path

from plans import Experiment, read_plan

HERE = Path(__file__).parent
BEGIN, END = "<!-- tables: written by render.py -->", "<!-- end of tables -->"
HEADER = (
    "experiment",
    "changes",
    "expected",
    "seed",
    "minutes",
    "train",
    "valid",
    "test",
    "S-F1",
    "symbols used (N, P)",
    "largest gradient",
    "what came of it",
)


def main() -> None:
    """Replace what stands between the markers, or see whether that would change anything."""
    readme = HERE / "README.md"
    text = readme.read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    tables = "\n\n".join(table(plan) for plan in sorted(HERE.glob("*.toml")))
    new = f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"
    if "--check" in sys.argv[1:]:
        sys.exit(int(new != text))
    readme.write_text(new, "utf-8")


def table(path: Path) -> str:
    """One plan: its title, what its experiments share, and a line a run."""
    plan = read_plan(path)
    rows = read_rows(path.with_suffix(".csv"))
    shared = ", ".join(f"`{setting}`" for setting in plan.settings) or "nothing"
    lines = [f"## {plan.title}", "", f"`{path.name}`: configuration `{plan.config}` with {shared}.{where(rows)}", ""]
    lines += ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    for experiment in plan.experiments:
        found = [row for row in rows if row["experiment"] == experiment.name]
        lines += [line(experiment, row) for row in found] or [line(experiment, {})]
    return "\n".join(lines)


def line(experiment: Experiment, row: dict[str, str]) -> str:
    """One run, or an experiment that has not been run to its end."""
    changes = ", ".join(
        f"`{change}`" for change in ([experiment.config] if experiment.config else []) + experiment.settings
    )
    used = f"{row['nonterminals_used']}, {row['preterminals_used']}" if row.get("nonterminals_used") else ""
    names = ("seed", "minutes", "train_perplexity", "valid_perplexity", "test_perplexity", "test_sentence_f1")
    missing = "not to its end" if experiment.taught else "not run yet"
    numbers = [row.get(name, "") for name in names] if row else [missing, *[""] * (len(names) - 1)]
    came = row.get("failure") or experiment.taught
    cells = [experiment.name, changes, experiment.expected, *numbers, used, row.get("largest_gradient_norm", ""), came]
    return "| " + " | ".join(cells) + " |"


def where(rows: list[dict[str, str]]) -> str:
    """On what the rows were made."""
    machines = sorted({f"{row['machine']}, commit {row['commit']}" for row in rows})
    return f" Run on {'; '.join(machines)}." if machines else ""


def read_rows(path: Path) -> list[dict[str, str]]:
    """What was recorded so far."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


if __name__ == "__main__":
    main()
