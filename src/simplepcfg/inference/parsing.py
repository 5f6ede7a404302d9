"""The trees that a run gives sentences: by span posteriors without symbols, or the most probable one with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from simplepcfg.data.batching import Batch
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.treebank import Spans
from simplepcfg.inference.batches import blocks, in_batches
from simplepcfg.inference.labelled_trees import ScoredTree, best_trees, k_best_trees
from simplepcfg.inference.marginals import Bonus, ConstraintList, Words, bonus_of_batch
from simplepcfg.inference.sentences import Sentence, original_tree
from simplepcfg.inference.trained_model import TrainedModel

DECODERS = ("mbr", "viterbi")


def parse_spans(
    run: TrainedModel, sentences: Iterable[Sentence], constraints: ConstraintList | None, decode: str
) -> list[SpanTree]:
    """See ``Run.parse_spans``."""
    refuse_unknown_decoder(decode)
    prepared = run.prepare(sentences)
    return _trees(run, prepared, bonus_of_batch(constraints, prepared, run.device), decode)


def parse_blocks(
    run: TrainedModel, sentences: Iterable[Sentence], constraints: ConstraintList | None, decode: str
) -> Iterator[list[SpanTree]]:
    """See ``Run.parse_blocks``."""
    refuse_unknown_decoder(decode)
    for prepared, bonus in prepared_blocks(run, sentences, constraints):
        yield _trees(run, prepared, bonus, decode)


def k_best_blocks(
    run: TrainedModel, sentences: Iterable[Sentence], k: int, constraints: ConstraintList | None
) -> Iterator[list[list[ScoredTree]]]:
    """See ``Run.k_best_blocks``."""
    for prepared, bonus in prepared_blocks(run, sentences, constraints):
        yield k_best_trees(run, prepared, k, bonus)


def prepared_blocks(
    run: TrainedModel, sentences: Iterable[Sentence], constraints: ConstraintList | None
) -> Iterator[tuple[Words, Bonus]]:
    """Sentences with their constraints in parts that take seconds each; all are checked before the first."""
    prepared = run.prepare(sentences)
    bonus_of_batch(constraints, prepared, run.device)
    for part in blocks(run, [len(item.tokens) for _, item in prepared]):
        asked = None if constraints is None else constraints[part]
        yield prepared[part], bonus_of_batch(asked, prepared[part], run.device)


def _trees(run: TrainedModel, prepared: Words, bonus: Bonus, decode: str) -> list[SpanTree]:
    if decode == "viterbi":
        return best_trees(run, prepared, bonus)
    decoded = mbr_spans(run, [item.tokens for _, item in prepared], bonus)
    return [original_tree(words, item, spans) for (words, item), spans in zip(prepared, decoded, strict=True)]


def refuse_unknown_decoder(decode: str) -> None:
    """Before anything is read or computed."""
    if decode not in DECODERS:
        raise InputError(f"decode = {decode!r}; take one of {', '.join(DECODERS)}")


def mbr_spans(run: TrainedModel, sentences: Sequence[Sequence[str]], bonus: Bonus = lambda batch: None) -> list[Spans]:
    """Spans over the tokens of each sentence, those with the largest total posterior."""

    def compute(batch: Batch) -> list[Spans]:
        return run.grammar_of(batch).decode(batch.words, batch.lengths, span_bonus=bonus(batch))

    return in_batches(run, sentences, compute, list)


def viterbi_spans(run: TrainedModel, sentences: Sequence[Sequence[str]]) -> list[Spans]:
    """Spans over the tokens of each sentence, those of the most probable tree."""

    def compute(batch: Batch) -> list[Spans]:
        with torch.no_grad():
            return [tree.spans for tree in run.grammar_of(batch).viterbi(batch.words, batch.lengths).to_list()]

    return in_batches(run, sentences, compute, list)
