"""The trees that a run gives sentences: by span posteriors without symbols, or the most probable one with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from simplepcfg.beliefs import Bonus, ConstraintList, bonus_of_batch
from simplepcfg.data.batching import Batch
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.treebank import Spans
from simplepcfg.labelled import best_trees
from simplepcfg.sentences import Sentence, original_tree

if TYPE_CHECKING:
    from simplepcfg.run import Run

DECODERS = ("mbr", "viterbi")


def parse_spans(
    run: Run, sentences: Iterable[Sentence], constraints: ConstraintList | None, decode: str
) -> list[SpanTree]:
    """See ``Run.parse_spans``."""
    refuse_unknown_decoder(decode)
    prepared = run.prepare(sentences)
    bonus = bonus_of_batch(constraints, prepared, run.device)
    if decode == "viterbi":
        return best_trees(run, prepared, bonus)
    decoded = mbr_spans(run, [item.tokens for _, item in prepared], bonus)
    return [original_tree(words, item, spans) for (words, item), spans in zip(prepared, decoded, strict=True)]


def refuse_unknown_decoder(decode: str) -> None:
    """Before anything is read or computed."""
    if decode not in DECODERS:
        raise InputError(f"decode = {decode!r}; take one of {', '.join(DECODERS)}")


def mbr_spans(run: Run, sentences: Sequence[Sequence[str]], bonus: Bonus = lambda batch: None) -> list[Spans]:
    """Spans over the tokens of each sentence, those with the largest total posterior."""

    def compute(batch: Batch) -> list[Spans]:
        return run.grammar_of(batch).decode(batch.words, batch.lengths, span_bonus=bonus(batch))

    return run.in_batches(sentences, compute, list)


def viterbi_spans(run: Run, sentences: Sequence[Sequence[str]]) -> list[Spans]:
    """Spans over the tokens of each sentence, those of the most probable tree."""

    def compute(batch: Batch) -> list[Spans]:
        with torch.no_grad():
            return [tree.spans for tree in run.grammar_of(batch).viterbi(batch.words, batch.lengths).listed()]

    return run.in_batches(sentences, compute, list)
