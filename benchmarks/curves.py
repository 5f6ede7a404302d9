"""A training run's curve, epoch by epoch, from its metrics.jsonl: perplexities and how exact the inside algorithm was.

    python benchmarks/curves.py RUN/metrics.jsonl --name sn-pcfg-4096 --precision bf16 --machine H200 --commit 1a2b3c4

The runs are made by `simplepcfg reproduce` or `simplepcfg train`, with training.check_identity, on another machine
perhaps: where and from what is said here. Prints and appends to results/curves.csv.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from simplepcfg.benchmarking.report import append_rows

RESULTS = Path(__file__).parent / "results" / "curves.csv"
MEASURES = ("train_perplexity", "valid_perplexity")


def main() -> None:
    """Read, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("metrics", type=Path)
    for name in ("name", "precision", "machine", "commit"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--test-perplexity", default="", help="of the best epoch, where it was asked for")
    given = parser.parse_args()
    rows = epochs(given.metrics)
    if not rows:
        parser.error(f"{given.metrics}: no epoch is finished in it; train on")
    best = min(rows, key=lambda row: row["valid_perplexity"])
    fixed = {name: getattr(given, name) for name in ("name", "seed", "precision")}
    where = {"machine": given.machine, "commit": given.commit}
    rows = [{**fixed, **row, "test_perplexity": given.test_perplexity if row is best else "", **where} for row in rows]
    append_rows(RESULTS, rows)
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items() if value != ""))


def epochs(path: Path) -> list[dict[str, Any]]:
    """A row for each epoch; the counts' ratios are those of its logged steps, 1 where nothing was lost."""
    rows, ratios = [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "steps" and record.get("rule_count_ratio") is not None:
            ratios.append(record["rule_count_ratio"])
        if record["kind"] == "epoch":
            row = {"epoch": record["epoch"], **{name: round(record[name], 2) for name in MEASURES}}
            row["furthest_count_ratio"] = round(max(ratios, key=lambda ratio: abs(ratio - 1)), 5) if ratios else ""
            rows.append(row)
            ratios = []
    return rows


if __name__ == "__main__":
    main()
