"""Readable names of symbols: the gold label where the run's folder has a file of them, otherwise typical words."""

from __future__ import annotations

from functools import lru_cache

from simplepcfg.inference.label_mapping import LabelMapping
from simplepcfg.inference.run import Run

LABELS_FILE = "labels.json"  # in the run's folder, as `evaluate --write-labels` writes it


def symbol_name(run: Run, symbol: str) -> str:
    """Return what a symbol such as NT-12 is called where people read it; the symbol itself where nothing is known."""
    labels = _labels(run)
    label = labels.phrases.get(symbol) or labels.tags.get(symbol)
    return label or (run.symbol_name(symbol) if run.shares_rules else symbol)


@lru_cache(maxsize=64)
def _labels(run: Run) -> LabelMapping:
    path = None if run.directory is None else run.directory / LABELS_FILE
    if path is None or not path.is_file():
        return LabelMapping({}, {})
    labels = LabelMapping.load(path)
    labels.refuse_other(run)
    return labels
