"""Gold labels of the spans of induced symbols."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simplepcfg.data.trees import SpanTree
from simplepcfg.evaluation.f1 import strip_function_tags

NO_CONSTITUENT = "none"
OTHER = "other"


@dataclass(frozen=True, slots=True)
class SymbolLabels:
    """Counts of gold labels over the spans of each symbol; `NO_CONSTITUENT` where there is no such gold span."""

    counts: dict[str, Counter[str]]

    @property
    def accuracy(self) -> float:
        """Many-to-one accuracy: share of predicted gold constituents with the most frequent label of their symbol."""
        right = total = 0
        for row in self.counts.values():
            labelled = [count for label, count in row.items() if label != NO_CONSTITUENT]
            right += max(labelled, default=0)
            total += sum(labelled)
        return right / total if total else 0.0

    def table(self, symbols: int, labels: int) -> tuple[list[str], list[str], list[list[float]]]:
        """Return the most used symbols, the most frequent labels, and the share of each label for each symbol.

        The last two columns are other labels and spans that are no gold constituents.
        """
        rows = sorted(self.counts, key=lambda name: (-self.counts[name].total(), name))[:symbols]
        totals: Counter[str] = Counter()
        for row in self.counts.values():
            totals.update({label: count for label, count in row.items() if label != NO_CONSTITUENT})
        columns = [label for label, _ in totals.most_common(labels)]
        shares = []
        for name in rows:
            row, total = self.counts[name], self.counts[name].total()
            known = [row[label] for label in columns]
            shares.append(
                [count / total for count in [*known, total - sum(known) - row[NO_CONSTITUENT], row[NO_CONSTITUENT]]]
            )
        return rows, [*columns, OTHER, NO_CONSTITUENT], shares


def symbol_labels(gold: Iterable[SpanTree], predicted: Iterable[Sequence[tuple[int, int, str]]]) -> SymbolLabels:
    """Count the gold labels of predicted labelled spans (i, j, symbol) of two words or more, for each symbol."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for tree, spans in zip(gold, predicted, strict=True):
        labels: dict[tuple[int, int], str] = {}
        for i, j, label in tree.spans:  # The topmost label of a unary chain counts.
            labels.setdefault((i, j), strip_function_tags(label))
        for i, j, symbol in spans:
            if j - i >= 2:
                counts[symbol][labels.get((i, j), NO_CONSTITUENT)] += 1
    return SymbolLabels(dict(counts))
