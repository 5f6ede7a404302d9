"""Marginals over the derivations of sentences: span marginals, tags, entropy and divergence."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor

from simplepcfg.data.batching import Batch
from simplepcfg.data.constraints import Constraints, stacked_bonuses, token_bonuses
from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.separators import crossing_spans, separator_places
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.sentences import Sentence
from simplepcfg.inference.trained_model import TrainedModel

# The constraints of each sentence: an object, a dictionary of the same keys, or None.
ConstraintList = Sequence[Constraints | Mapping[str, object] | None]
Bonus = Callable[[Batch], Tensor | None]  # a weight for each span of a batch


class TaggedWord(NamedTuple):
    """A word with its most probable preterminal and its probability; None and 0 for words that the run drops."""

    word: str
    tag: int | None
    probability: float


def no_bonus(batch: Batch) -> None:
    """Return None: the span bonus of sentences without constraints."""


def make_bonus(constraints: ConstraintList | None, prepared: list[Prepared]) -> Bonus:
    """Return a function from a batch of sentences to the span bonus of their constraints, or to None."""
    if constraints is None:
        return no_bonus
    return _stacked(token_bonuses(constraints, prepared))


def prepare_constrained(
    run: TrainedModel, sentences: Iterable[Sentence], constraints: ConstraintList | None
) -> tuple[list[Prepared], Bonus]:
    """Prepare sentences for a run, and return them with the span bonus of their constraints."""
    prepared = run.prepare(sentences)
    return prepared, make_bonus(constraints, prepared)


def _stacked(bonuses: Sequence[Tensor | None]) -> Bonus:
    """Return a function from a batch of these sentences to their span bonuses."""

    def stacked(batch: Batch) -> Tensor | None:
        bonus = stacked_bonuses([bonuses[index] for index in batch.indices], batch.words.shape[1])
        return None if bonus is None else bonus.to(batch.words.device)

    return stacked


def with_separators(run: TrainedModel, prepared: list[Prepared], bonus: Bonus) -> Bonus:
    """Return the bonus less ``data.separator_weight`` for spans that cross punctuation which the run does not see."""
    weight = run.config.data.separator_weight
    if not weight:
        return bonus
    places = [separator_places(item.words, item.kept) for item in prepared]

    def with_weights(batch: Batch) -> Tensor | None:
        own, here = bonus(batch), [places[index] for index in batch.indices]
        if not any(here):
            return own
        weights = -weight * crossing_spans(here, batch.words.shape[1], batch.lengths.cpu()).float().to(run.device)
        return weights if own is None else own + weights

    return with_weights


def span_marginals(
    run: TrainedModel, prepared: list[Prepared], constraints: ConstraintList | None, separators: bool = False
) -> list[Tensor]:
    """Return span marginals over each sentence's tokens, [tokens + 1, tokens + 1] on the CPU; 0 below two tokens.

    With `separators` they are those by which trees are chosen, which take notice of ``data.separator_weight``.
    """
    bonus = make_bonus(constraints, prepared)
    if separators:
        bonus = with_separators(run, prepared, bonus)

    def compute(batch: Batch) -> list[Tensor]:
        tables = run.grammar_of(batch).span_marginals(batch.words, batch.lengths, span_bonus=bonus(batch)).cpu()
        return [table[: n + 1, : n + 1] for table, n in zip(tables, batch.lengths.tolist(), strict=True)]

    tables = in_batches(run, [item.tokens for item in prepared], compute, lambda: torch.zeros(0, 0))
    for index, item in enumerate(prepared):
        if len(item.tokens) < 2:
            tables[index] = torch.zeros(len(item.tokens) + 1, len(item.tokens) + 1)
    return tables


def word_span_marginals(
    run: TrainedModel, prepared: list[Prepared], constraints: ConstraintList | None
) -> list[Tensor]:
    """Return span marginals over each sentence's original words, [words + 1, words + 1]; see ``Run``.

    What a run does not see is taken out of a span, as of a constraint: over `the dog , barks` the entries of `the dog`
    and of `the dog ,` are the same. Spans of which less than two words are left have 0.
    """
    tables = span_marginals(run, prepared, constraints)
    endings = _marginals_of_endings(run, prepared, constraints)
    over_words = []
    for item, table, ending in zip(prepared, tables, endings, strict=True):
        n = len(item.kept)
        over_kept = table[: n + 1, : n + 1].clone()
        if ending is not None:
            over_kept[: n - 1, n] = ending
        posts = torch.tensor([bisect_left(item.kept, place) for place in range(len(item.words) + 1)])
        over_words.append(over_kept[posts][:, posts])
    return over_words


def _marginals_of_endings(
    run: TrainedModel, prepared: list[Prepared], constraints: ConstraintList | None
) -> list[Tensor | None]:
    """Return the marginal [n - 1] of each span that ends with the last word, with or without an added `<eos>`.

    A tree may have both forms of such a span, so their marginals cannot be added. What is wanted is the share of
    the trees that are left when the span is required, which takes a sum over trees for each of them.
    """
    own = token_bonuses([None] * len(prepared) if constraints is None else constraints, prepared)
    asked: list[int] = []  # the sentence of each span that is required; the first of them is the whole sentence
    bonuses = []
    for index, item in enumerate(prepared):
        if len(item.tokens) > len(item.kept) >= 2:
            for start in item.kept[:-1]:
                required = Constraints(require=((start, item.kept[-1] + 1),)).token_bonus(item)
                tables = [table for table in (required, own[index]) if table is not None]
                asked.append(index)
                bonuses.append(torch.stack(tables).sum(0))
    bonus = _stacked(bonuses)

    def compute(batch: Batch) -> list[float]:
        return run.grammar_of(batch).log_partition(batch.words, batch.lengths, span_bonus=bonus(batch)).tolist()

    scores = in_batches(run, [prepared[index].tokens for index in asked], compute, lambda: -math.inf)
    marginals: list[Tensor | None] = [None] * len(prepared)
    for index, pairs in groupby(zip(asked, scores, strict=True), key=itemgetter(0)):
        values = torch.tensor([score for _, score in pairs], dtype=torch.float64)
        marginals[index] = (values - values[0]).exp().nan_to_num(0.0).clamp(max=1.0).float()
    return marginals


def depths(run: TrainedModel, sentences: Iterable[Sentence]) -> list[list[float | None]]:
    """See ``Run.depths``."""
    prepared = run.prepare(sentences)

    def compute(batch: Batch) -> list[list[float]]:
        spans = run.grammar_of(batch).span_marginals(batch.words, batch.lengths).double()
        # The spans (i, j) over word k are those with i <= k < j: those that begin by k, without those that end by k.
        begun, ended = spans.sum(2).cumsum(1), spans.sum(1).cumsum(1)
        over = (begun - ended)[:, :-1].tolist()
        return [row[:n] for row, n in zip(over, batch.lengths.tolist(), strict=True)]

    tokens = [item.tokens if run.has_trees else [] for item in prepared]
    answers: list[list[float]] = in_batches(run, tokens, compute, list)
    tables: list[list[float | None]] = [[None] * len(item.words) for item in prepared]
    for table, item, answer in zip(tables, prepared, answers, strict=True):
        for place, depth in zip(item.kept, answer, strict=False):  # an <eos> that was added has no place
            table[place] = depth
    return tables


def tagged_words(
    run: TrainedModel, sentences: Iterable[Sentence], constraints: ConstraintList | None
) -> list[list[TaggedWord]]:
    """See ``Run.tags``."""
    prepared, bonus = prepare_constrained(run, sentences, constraints)

    def compute(batch: Batch) -> list[list[tuple[int, float]]]:
        marginals = run.grammar_of(batch).tag_marginals(batch.words, batch.lengths, span_bonus=bonus(batch))
        best, which = marginals.max(-1)
        return [
            list(zip(tags, shares, strict=True))[:n]
            for tags, shares, n in zip(which.tolist(), best.tolist(), batch.lengths.tolist(), strict=True)
        ]

    answers: list[list[tuple[int, float]]] = in_batches(run, [item.tokens for item in prepared], compute, list)
    tagged = [[TaggedWord(word, None, 0.0) for word in item.words] for item in prepared]
    for row, item, answer in zip(tagged, prepared, answers, strict=True):
        for index, (tag, share) in zip(item.kept, answer, strict=False):
            # A sentence of probability 0 has no marginals; without this its words would have the first tag.
            row[index] = TaggedWord(item.words[index], tag if share > 0 else None, min(share, 1.0))
    return tagged


def entropies(run: TrainedModel, sentences: Iterable[Sentence], constraints: ConstraintList | None) -> list[float]:
    """See ``Run.entropy``."""
    prepared, bonus = prepare_constrained(run, sentences, constraints)

    def compute(batch: Batch) -> list[float]:
        return run.grammar_of(batch).entropy(batch.words, batch.lengths, span_bonus=bonus(batch)).tolist()

    return in_batches(run, [item.tokens for item in prepared], compute, lambda: -math.inf)
