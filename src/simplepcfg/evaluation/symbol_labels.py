"""Gold labels of the spans of induced symbols."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from simplepcfg.data.trees import WORD_LABEL, SpanTree
from simplepcfg.evaluation.f1 import strip_function_tags

NO_CONSTITUENT = "none"
OTHER = "other"
ROOT_LABELS = ("ROOT", "TOP", "")  # stand above the label of a sentence
# What tables call the properties of `SymbolLabels`.
SHARES = {
    "accuracy": "accuracy, many to one",
    "homogeneity": "homogeneity",
    "completeness": "completeness",
    "v_measure": "V-measure",
}


@dataclass(frozen=True, slots=True)
class SymbolLabels:
    """Counts of the gold labels of each symbol's spans; `NO_CONSTITUENT` where gold has no such span.

    All measures are over the spans that gold has, between 0 and 1.
    """

    counts: dict[str, Counter[str]]

    @property
    def accuracy(self) -> float:
        """Share of the predicted gold constituents whose label is the most frequent one of their symbol.

        Many symbols may stand for one label. 0 where nothing was counted.
        """
        rows = self._labelled().values()
        total = sum(row.total() for row in rows)
        return sum(max(row.values()) for row in rows) / total if total else 0.0

    @property
    def homogeneity(self) -> float:
        """1 − H(label | symbol) / H(label): 1 where every symbol has one label, or where there is one label alone."""
        return _explained(self._labelled().values())

    @property
    def completeness(self) -> float:
        """1 − H(symbol | label) / H(symbol): 1 where every label has one symbol, or where there is one symbol alone."""
        by_label: dict[str, Counter[str]] = defaultdict(Counter)
        for symbol, row in self._labelled().items():
            for label, count in row.items():
                by_label[label][symbol] = count
        return _explained(by_label.values())

    @property
    def v_measure(self) -> float:
        """Harmonic mean of homogeneity and completeness."""
        both = self.homogeneity, self.completeness
        return 2 * both[0] * both[1] / sum(both) if sum(both) else 0.0

    def mapping(self) -> dict[str, str]:
        """Return the most frequent gold label of each symbol that has any; of equals the first by name."""
        return {symbol: label for symbol, (label, _) in self.best().items()}

    def best(self) -> dict[str, tuple[str, float]]:
        """Return the labels of `mapping`, each with its share of the symbol's gold constituents."""
        labels = {}
        for symbol, row in sorted(self._labelled().items()):
            label = min(row, key=lambda name: (-row[name], name))
            labels[symbol] = (label, row[label] / row.total())
        return labels

    def table(self, symbols: int, labels: int) -> tuple[list[str], list[str], list[list[float]]]:
        """Return the most used symbols, the most frequent labels, and the share of each label for each symbol.

        The last two columns are other labels and spans that are no gold constituents.
        """
        rows = sorted(self.counts, key=lambda name: (-self.counts[name].total(), name))[:symbols]
        columns = [label for label, _ in _columns(self._labelled().values()).most_common(labels)]
        shares = []
        for name in rows:
            row, total = self.counts[name], self.counts[name].total()
            known = [row[label] for label in columns]
            shares.append(
                [count / total for count in [*known, total - sum(known) - row[NO_CONSTITUENT], row[NO_CONSTITUENT]]]
            )
        return rows, [*columns, OTHER, NO_CONSTITUENT], shares

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON, percentages from 0 to 100."""
        return {
            **{name: 100 * getattr(self, name) for name in SHARES},
            "mapping": self.mapping(),
            "confusion": {symbol: dict(row.most_common()) for symbol, row in sorted(self.counts.items())},
        }

    def _labelled(self) -> dict[str, Counter[str]]:
        """Return the counts of spans that gold has, of symbols that have any."""
        rows = {
            symbol: Counter({label: count for label, count in row.items() if label != NO_CONSTITUENT and count})
            for symbol, row in self.counts.items()
        }
        return {symbol: row for symbol, row in rows.items() if row}


def symbol_labels(gold: Iterable[SpanTree], predicted: Iterable[Sequence[tuple[int, int, str]]]) -> SymbolLabels:
    """Count the gold labels of predicted labelled spans (i, j, symbol) of two words or more, for each symbol."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for tree, spans in zip(gold, predicted, strict=True):
        labels = gold_labels(tree)
        for i, j, symbol in spans:
            if j - i >= 2:
                counts[symbol][labels.get((i, j), NO_CONSTITUENT)] += 1
    return SymbolLabels(dict(counts))


def tag_labels(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> SymbolLabels:
    """Compare the preterminal of each word with its gold tag; words without a preterminal do not count."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for truth, guess in zip(gold, predicted, strict=True):
        for tag, symbol in zip(truth, guess, strict=True):
            if symbol != WORD_LABEL:
                counts[symbol][tag] += 1
    return SymbolLabels(dict(counts))


def gold_labels(tree: SpanTree) -> dict[tuple[int, int], str]:
    """Return the label of each span without its function tags; of a unary chain the topmost counts that is no root."""
    labels: dict[tuple[int, int], str] = {}
    for i, j, label in tree.spans:
        if labels.get((i, j), ROOT_LABELS[0]) in ROOT_LABELS:
            labels[i, j] = strip_function_tags(label)
    return labels


def _columns(rows: Iterable[Counter[str]]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for row in rows:
        totals.update(row)
    return totals


def _explained(groups: Collection[Counter[str]]) -> float:
    """Return the share of the entropy of all counts that goes when one knows the group; 1 where there is no entropy."""
    totals = _columns(groups)
    whole = _entropy(totals.values())
    if not whole:
        return 1.0
    left = sum(group.total() / totals.total() * _entropy(group.values()) for group in groups)
    return max(0.0, 1 - left / whole)  # rounding may leave -1e-17


def _entropy(counts: Iterable[int]) -> float:
    """Compute the entropy (nats) of the distribution that is proportional to positive counts."""
    positive = list(counts)
    total = sum(positive)
    return -math.fsum(count / total * math.log(count / total) for count in positive)
