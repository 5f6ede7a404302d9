"""Writes a row for each plan beside this file into README.md, between its markers.

    python experiments/render.py [--check]

With --check nothing is written, and the exit code is 1 if something would be.
"""

import re
import sys
from pathlib import Path

from plans import read_plan, read_rows

HERE = Path(__file__).parent
BEGIN, END = "<!-- tables: written by render.py -->", "<!-- end of tables -->"
HEADER = ("plan", "what it is about", "runs", "lowest valid", "highest S-F1")


def main() -> None:
    """Replace what stands between the markers, or see whether that would change anything."""
    readme = HERE / "README.md"
    text = readme.read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += [line(plan) for plan in sorted(HERE.glob("*.toml"))]
    new = f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}"
    if "--check" in sys.argv[1:]:
        sys.exit(int(new != text))
    readme.write_text(new, "utf-8")


def line(path: Path) -> str:
    """Return the row of one plan: the first words of its title, how many runs it has, and their best figures."""
    rows = read_rows(path.with_suffix(".csv"))
    lowest = min((row["valid_perplexity"] for row in rows if row["valid_perplexity"]), key=float, default="")
    highest = max((row["test_sentence_f1"] for row in rows if row["test_sentence_f1"]), key=float, default="")
    about = re.split("[;(]|, (?![A-Z][a-z])", read_plan(path).title.split(": ")[-1])[0].strip()
    return f"| `{path.stem}` | {about} | {len(rows)} | {lowest} | {highest} |"


if __name__ == "__main__":
    main()
