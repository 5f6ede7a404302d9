"""`simplepcfg reproduce`: the paper's tables, trained and evaluated here, beside the published figures."""

import os
from pathlib import Path
from typing import Literal

from simplepcfg.cli.options import Device, Quiet
from simplepcfg.cli.output import note, results_console
from simplepcfg.cli.requests import arg, opt
from simplepcfg.errors import InputError

SUMMARY = "The paper's tables, beside its figures."
PaperTableName = Literal["lm", "parsing", "multilingual"]


def command(
    table: PaperTableName = arg(None, "Which of the paper's tables."),
    data: Path = opt(
        "--data", "DIR", "Folder of training, validation and test files; multilingual: one a language.", ...
    ),
    rows: list[str] | None = opt("--rows", "A,B", "Only these rows."),
    seeds: int = opt("--seeds", "N", "Runs a row, of seeds 1 to N.", 4, min=1),
    out: Path | None = opt("--out", "DIR", "Folder of runs and results.  [default: reproduction/TABLE]"),
    settings: list[str] | None = opt("--set", "KEY=VALUE", "Change one key of every row; the table then says so."),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Train and evaluate the rows of a table and set our figure beside the paper's.

    Everything is kept in --out: runs/ROW/seed-N, results.jsonl, table.md, table.csv. Stopped at any point, the same
    command goes on: what has a result is not done again, and a training goes on from its checkpoint. Rows whose
    configuration is not installed, and rows that the paper quotes from elsewhere, are shown as such.

    \b
    Example:
      simplepcfg reproduce parsing --data data/wsj --rows sn-pcfg-4096,right-branching --seeds 4
      simplepcfg reproduce lm --data data/ptb --rows sn-pcfg-4096 --seeds 1 --set training.epochs=3
    """
    chosen = None if rows is None else [name.strip() for text in rows for name in text.split(",") if name.strip()]
    if chosen == []:
        raise InputError("--rows is empty; name a row, or leave it out for all")
    place = out if out is not None else Path("reproduction") / table
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("reproduce runs in one process; with torchrun, train a row by `simplepcfg train` instead")
    from simplepcfg.plans.runner import reproduce
    from simplepcfg.training.reporting.reporters import make_reporter

    result = reproduce(
        table,
        data,
        place,
        rows=chosen,
        seeds=seeds,
        settings=settings or (),
        device=device,
        make_reporter=lambda: make_reporter(quiet),
        remark=lambda text: note(text, quiet),
    )
    results_console().print(result.rich())
    note(f"the same table is in {place / 'table.md'} and {place / 'table.csv'}", quiet)
