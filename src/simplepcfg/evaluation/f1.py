"""Unlabelled F1 of bracketings, by the conventions of unsupervised parsing.

Spans of one word and of the whole sentence do not count, labels do not matter, and a span counts once even if a unary
chain has several nodes over it. Sentence F1 is the mean over sentences, corpus F1 is micro-averaged; both leave out
sentences of fewer than two words. Without gold spans recall is 1, and precision is 1 only if nothing was predicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simplepcfg.data.conventions import plain_label
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError

Spans = frozenset[tuple[int, int]]

LENGTH_BUCKETS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, None))


@dataclass(frozen=True, slots=True)
class LengthF1:
    """F1 (0 to 100) of the sentences with `shortest` to `longest` words; None where there are none."""

    shortest: int
    longest: int | None
    sentences: int
    sentence_f1: float | None

    @property
    def name(self) -> str:
        """Name such as "11-20" or ">40"."""
        return f">{self.shortest - 1}" if self.longest is None else f"{self.shortest}-{self.longest}"


@dataclass(frozen=True, slots=True)
class LabelRecall:
    """Number of gold constituents of a label (without function tags) that were predicted."""

    label: str
    found: int
    total: int

    @property
    def recall(self) -> float:
        """Recall, 0 to 100."""
        return 100 * self.found / self.total


class SentenceSpans(NamedTuple):
    """Counts of the evaluated spans of one sentence; `place` is its index in the file, from 0."""

    place: int
    hits: int
    gold: int
    predicted: int
    words: int = 0
    crossing: int = 0  # predicted spans that cross a gold one, counted where the gold spans are dependency subtrees

    @property
    def f1(self) -> float:
        """F1, 0 to 1."""
        return f1_of_counts(self.hits, self.gold, self.predicted)


@dataclass(frozen=True, slots=True)
class F1Report:
    """F1 of one system, 0 to 100, by length and by label; labels are ordered by decreasing frequency."""

    sentence_f1: float
    corpus_f1: float
    sentences: int
    skipped_one_word: int
    by_length: tuple[LengthF1, ...]
    recall_by_label: tuple[LabelRecall, ...]
    by_sentence: tuple[SentenceSpans, ...] = field(default=(), repr=False)
    predicted: tuple[tuple[tuple[int, int], ...], ...] = field(default=(), repr=False)  # spans of each sentence


def proper_spans(spans: Iterable[tuple[int, int]], length: int) -> Spans:
    """Return the spans wider than a word and narrower than the sentence of `length` words.

    Raises InputError for a span outside the sentence.
    """
    counted = set()
    for i, j in spans:
        if not 0 <= i < j <= length:
            raise InputError(f"span ({i}, {j}) lies outside a sentence of {length} words")
        if 1 < j - i < length:
            counted.add((i, j))
    return frozenset(counted)


def evaluation_spans(tree: SpanTree) -> Spans:
    """Return the spans of a tree that are evaluated."""
    return proper_spans(((i, j) for i, j, _ in tree.spans), len(tree))


def strip_function_tags(label: str) -> str:
    """Return a label without function tags: NP-SBJ-1, NP=2 and ADVP|PRT become NP, NP and ADVP; -LRB- stays."""
    return label if label.startswith("-") else plain_label(label.split("|", 1)[0]) or label


def evaluate_spans(gold: Sequence[SpanTree], predicted: Sequence[Iterable[tuple[int, int]]]) -> F1Report:
    """Compute F1 of predicted spans, one collection for each gold tree.

    Raises InputError if their numbers differ, a span lies outside its sentence, or no tree has two words.
    """
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} gold trees but {len(predicted)} predictions; give one for each")
    listed = tuple(map(tuple, predicted))
    counts: list[SentenceSpans] = []
    hits: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for number, (tree, spans) in enumerate(zip(gold, listed, strict=True), start=1):
        if len(tree) < 2:
            continue
        try:
            guess = proper_spans(spans, len(tree))
        except InputError as error:
            raise InputError(f"prediction {number}: {error}; is it for another sentence?") from None
        truth = evaluation_spans(tree)
        counts.append(SentenceSpans(number - 1, len(truth & guess), len(truth), len(guess), len(tree)))
        for i, j, label in {(i, j, strip_function_tags(label)) for i, j, label in tree.spans}:
            if (i, j) in truth:
                total[label] += 1
                hits[label] += (i, j) in guess
    if not counts:
        raise InputError(f"none of {len(gold)} gold trees has two words or more; F1 needs one that has")
    labels = sorted(total, key=lambda label: (-total[label], label))
    return F1Report(
        *mean_and_corpus_f1([(item.hits, item.gold, item.predicted) for item in counts]),
        sentences=len(counts),
        skipped_one_word=len(gold) - len(counts),
        by_length=tuple(_bucket(counts, *bounds) for bounds in LENGTH_BUCKETS),
        recall_by_label=tuple(LabelRecall(label, hits[label], total[label]) for label in labels),
        by_sentence=tuple(counts),
        predicted=listed,
    )


def evaluate_trees(gold: Sequence[SpanTree], predicted: Sequence[SpanTree]) -> F1Report:
    """Compute F1 of predicted trees over the sentences of the gold trees; raise InputError if lengths differ."""
    for number, (truth, guess) in enumerate(zip(gold, predicted, strict=False), start=1):
        if len(truth) != len(guess):
            raise InputError(
                f"tree {number}: {len(truth)} words in the gold tree, {len(guess)} in the prediction; "
                "both need the same sentences and the same preprocessing"
            )
    return evaluate_spans(gold, [[(i, j) for i, j, _ in tree.spans] for tree in predicted])


def f1_of_counts(hits: int, gold: int, predicted: int) -> float:
    """Return F1 (0 to 1) from the numbers of common, gold and predicted spans."""
    recall = hits / gold if gold else 1.0
    precision = hits / predicted if predicted else float(not gold)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def mean_and_corpus_f1(counts: Sequence[tuple[int, int, int]]) -> tuple[float, float]:
    """Return the mean F1 of sentences and that of all together, 0 to 100, from common, gold and predicted spans."""
    hits, gold, predicted = (sum(item[place] for item in counts) for place in range(3))
    scores = [f1_of_counts(*item) for item in counts]
    return 100 * sum(scores) / len(scores) if scores else 0.0, 100 * f1_of_counts(hits, gold, predicted)


def _bucket(counts: Sequence[SentenceSpans], shortest: int, longest: int | None) -> LengthF1:
    inside = [item.f1 for item in counts if shortest <= item.words and (longest is None or item.words <= longest)]
    return LengthF1(shortest, longest, len(inside), 100 * sum(inside) / len(inside) if inside else None)
