"""Tables of symbols by gold labels, in cells that any rendering can show."""

from __future__ import annotations

from collections.abc import Sequence

from simplepcfg.evaluation.columns import Column
from simplepcfg.evaluation.symbol_labels import SymbolLabels

SYMBOLS, LABELS = 20, 8

Grid = tuple[str, list[str], list[list[str]]]  # title, header, rows


def confusion_grids(columns: Sequence[Column]) -> list[Grid]:
    """Return a table of nonterminals, and one of preterminals where gold has tags, for each report with labels."""
    grids = []
    for column in columns:
        for report in column.reports:
            name = report.name if column.grouped else column.name
            if report.labels is not None:
                grids.append(_grid(f"{name}: nonterminals by gold label", report.labels.phrases, phrases=True))
                if report.labels.tags is not None:
                    grids.append(_grid(f"{name}: preterminals by gold tag", report.labels.tags, phrases=False))
    return grids


def _grid(title: str, labels: SymbolLabels, phrases: bool) -> Grid:
    """Return a table of the most used symbols: what each stands for, its uses, and its shares (%) of labels."""
    symbols, header, shares = labels.table(SYMBOLS, LABELS)
    mapping = labels.mapping()
    shown = len(header) if phrases else len(header) - 1  # every word has a tag
    rows = [
        [
            symbol,
            mapping.get(symbol, "–"),
            f"{labels.counts[symbol].total():,}",
            *(f"{100 * share:.0f}" for share in row[:shown]),
        ]
        for symbol, row in zip(symbols, shares, strict=True)
    ]
    left = len(labels.counts) - len(symbols)
    more = f"; {left:,} symbols of fewer uses are not shown" if left else ""
    return f"{title} (% of uses{more})", ["symbol", "stands for", "uses", *header[:shown]], rows
