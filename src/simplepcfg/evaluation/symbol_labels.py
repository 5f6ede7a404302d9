"""Which gold labels induced symbols stand for."""

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
    """How often the spans of each symbol have each gold label; `NO_CONSTITUENT` where gold has no such span."""

    counts: dict[str, Counter[str]]

    @property
    def accuracy(self) -> float:
        """Share of the predicted gold constituents whose label is the most frequent one of their symbol: 0 to 1.

        Many symbols may stand for one label.
        """
        right = total = 0
        for row in self.counts.values():
            labelled = [count for label, count in row.items() if label != NO_CONSTITUENT]
            right += max(labelled, default=0)
            total += sum(labelled)
        return right / total if total else 0.0

    def table(self, symbols: int, labels: int) -> tuple[list[str], list[str], list[list[float]]]:
        """The most used symbols, the most frequent labels, and each symbol's shares.

        The last two columns are other labels and spans that gold does not have.
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
    """Compare labelled spans over the gold trees' words with the gold labels, of all spans of two words or more."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for tree, spans in zip(gold, predicted, strict=True):
        labels: dict[tuple[int, int], str] = {}
        for i, j, label in tree.spans:  # of a unary chain the topmost counts
            labels.setdefault((i, j), strip_function_tags(label))
        for i, j, symbol in spans:
            if j - i >= 2:
                counts[symbol][labels.get((i, j), NO_CONSTITUENT)] += 1
    return SymbolLabels(dict(counts))
