"""Parsing: minimum-Bayes-risk trees by span marginals, or the most probable trees with their symbols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from simplepcfg.data.batching import Batch
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.treebank import Spans
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.labelled_trees import viterbi_trees
from simplepcfg.inference.labelling import labelled_trees
from simplepcfg.inference.marginals import Bonus, ConstraintList, Words, make_bonus, with_separators
from simplepcfg.inference.sentences import Sentence, original_tree
from simplepcfg.inference.trained_model import TrainedModel

DECODERS = ("mbr", "exact-mbr", "viterbi")


def parse_spans(
    run: TrainedModel, sentences: Iterable[Sentence], constraints: ConstraintList | None, decode: str, labels: bool
) -> list[SpanTree]:
    """See ``Run.parse_spans``."""
    check_decoder(decode)
    prepared = run.prepare(sentences)
    return _trees(run, prepared, make_bonus(constraints, prepared, run.device), decode, labels)


def _trees(run: TrainedModel, prepared: Words, bonus: Bonus, decode: str, labels: bool) -> list[SpanTree]:
    if decode == "viterbi":
        return viterbi_trees(run, prepared, bonus)
    exact, bonus = decode == "exact-mbr", with_separators(run, prepared, bonus)
    if labels and run.labels is not None and run.labels.phrase_shares:
        return labelled_trees(run, prepared, bonus, run.labels, exact=exact)
    decoded = mbr_spans(run, [item.tokens for _, item in prepared], bonus, exact=exact)
    return [original_tree(words, item, spans) for (words, item), spans in zip(prepared, decoded, strict=True)]


def check_decoder(decode: str) -> None:
    """Raise InputError if `decode` is not in ``DECODERS``."""
    if decode not in DECODERS:
        raise InputError(f"decode = {decode!r}; take one of {', '.join(DECODERS)}")


def mbr_spans(
    run: TrainedModel, sentences: Sequence[Sequence[str]], bonus: Bonus = lambda batch: None, *, exact: bool = False
) -> list[Spans]:
    """Return the spans, over each sentence's tokens, of the tree with the largest sum of span marginals.

    Those of spans that end the sentence have ``data.branching_bonus`` added. With ``exact``, all symbols count; see
    ``Grammar.decode``.
    """

    def compute(batch: Batch) -> list[Spans]:
        final = run.config.data.branching_bonus
        grammar = run.grammar_of(batch)
        return grammar.decode(batch.words, batch.lengths, span_bonus=bonus(batch), final_bonus=final, exact=exact)

    return in_batches(run, sentences, compute, list)


def viterbi_spans(run: TrainedModel, sentences: Sequence[Sequence[str]]) -> list[Spans]:
    """Return the spans, over each sentence's tokens, of the most probable tree."""

    def compute(batch: Batch) -> list[Spans]:
        with torch.no_grad():
            return [tree.spans for tree in run.grammar_of(batch).viterbi(batch.words, batch.lengths).to_list()]

    return in_batches(run, sentences, compute, list)
