"""Comparison of the symbols of labelled trees with gold categories, of phrases and of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from simplepcfg.data.preprocessing import spans_over
from simplepcfg.data.trees import PHRASE_LABEL, SpanTree
from simplepcfg.evaluation.f1 import mean_and_corpus_f1, strip_function_tags
from simplepcfg.evaluation.symbol_labels import ROOT_LABELS, SymbolLabels, gold_labels, symbol_labels, tag_labels


@dataclass(frozen=True, slots=True)
class OwnLabels:
    """Accuracy, 0 to 100, of trees that have gold's labels already, learned elsewhere.

    `sentence_f1` and `corpus_f1` count the spans that F1 counts; `bracket_f1`, over the corpus, counts all
    constituents but the root, those of one word and of the whole sentence too, as is usual for supervised parsers.
    """

    sentence_f1: float
    corpus_f1: float
    bracket_f1: float
    tag_accuracy: float | None  # None where gold has no tags


@dataclass(frozen=True, slots=True)
class LabelReport:
    """Symbols against gold labels; F1 from 0 to 100, of spans whose mapped label is right, too."""

    phrases: SymbolLabels
    tags: SymbolLabels | None  # None where the gold trees have no tags
    sentence_f1: float
    corpus_f1: float
    own: OwnLabels | None = None  # None where the run has not learned labels before

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON, percentages from 0 to 100; `tags` is null where gold has none."""
        return {
            "labelled_sentence_f1": self.sentence_f1,
            "labelled_corpus_f1": self.corpus_f1,
            "phrases": self.phrases.to_dict(),
            "tags": None if self.tags is None else self.tags.to_dict(),
            "own_labels": None if self.own is None else asdict(self.own),
        }


def compare_labels(
    gold: Sequence[SpanTree],
    gold_tags: Sequence[Sequence[str]] | None,
    kept: Sequence[Sequence[int]],
    trees: Sequence[SpanTree],
) -> LabelReport | None:
    """Compare trees with symbols with gold trees; None where no tree has any symbol.

    The trees are over all words of the file or over those that preprocessing kept, whose indices are `kept`. Each
    symbol stands for its most frequent gold label in this very comparison (many to one). Labelled F1 counts the spans
    that F1 counts: neither single words nor the whole sentence.
    """
    predicted: list[list[tuple[int, int, str]]] = []
    tags: list[list[str]] = []
    for places, tree in zip(kept, trees, strict=True):
        spans = [] if {label for _, _, label in tree.spans} == {PHRASE_LABEL} else list(tree.spans)
        whole = len(tree) != len(places)
        predicted.append(spans_over(places, spans) if whole else spans)
        tags.append([tree.tags[index] for index in places] if whole else list(tree.tags))
    phrases = symbol_labels(gold, predicted)
    if not phrases.counts:
        return None
    found_tags = None if gold_tags is None else tag_labels(gold_tags, tags)
    return LabelReport(
        phrases,
        found_tags if found_tags is not None and found_tags.counts else None,
        *_labelled_f1(gold, predicted, phrases.mapping()),
    )


def judge_labels(
    gold: Sequence[SpanTree],
    gold_tags: Sequence[Sequence[str]] | None,
    kept: Sequence[Sequence[int]],
    trees: Sequence[SpanTree],
) -> OwnLabels:
    """Compare labelled trees over all words with gold trees over the words `kept`."""
    predicted = [spans_over(places, tree.spans) for places, tree in zip(kept, trees, strict=True)]
    names = {label: label for spans in predicted for _, _, label in spans}
    brackets = []
    for tree, spans in zip(gold, predicted, strict=True):
        if len(tree) < 2:
            continue
        truth = Counter((i, j, strip_function_tags(label)) for i, j, label in tree.spans if label not in ROOT_LABELS)
        guess = Counter(spans)
        brackets.append(((truth & guess).total(), truth.total(), guess.total()))
    pairs = [
        (tag, tree.tags[place])
        for tags, places, tree in zip(gold_tags or (), kept, trees, strict=gold_tags is not None)
        for tag, place in zip(tags, places, strict=True)
        if len(places) >= 2
    ]
    accuracy = 100 * sum(truth == guess for truth, guess in pairs) / len(pairs) if pairs else None
    return OwnLabels(*_labelled_f1(gold, predicted, names), mean_and_corpus_f1(brackets)[1], accuracy)


def _labelled_f1(
    gold: Sequence[SpanTree], predicted: Sequence[Sequence[tuple[int, int, str]]], mapping: dict[str, str]
) -> tuple[float, float]:
    counts = []
    for tree, spans in zip(gold, predicted, strict=True):
        n = len(tree)
        if n < 2:
            continue
        truth = {(i, j): label for (i, j), label in gold_labels(tree).items() if 1 < j - i < n}
        guess: dict[tuple[int, int], str | None] = {}
        for i, j, symbol in spans:
            if 1 < j - i < n:
                guess.setdefault((i, j), mapping.get(symbol))
        counts.append((len(truth.items() & guess.items()), len(truth), len(guess)))
    return mean_and_corpus_f1(counts)
