"""Snapshots of a model in training: a sample parse, the symbols in use, and a check of the span marginals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from simplepcfg.data.batching import Batch, collate
from simplepcfg.data.encoded_text import sentence_lengths
from simplepcfg.data.trees import SpanTree
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.grammars import DenseGrammar, Grammar, HiddenMarkovModel, SimpleGrammar
from simplepcfg.models import Model

# Validation sentences of a snapshot: few and short, so that it costs little time and memory.
SENTENCES = 16
SHORTEST, LONGEST = 4, 12
SAMPLE_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a model on a few validation sentences; None for what a model does not have."""

    tree: SpanTree | None  # of the same sentence every time, by span marginals
    identity: float | None  # Σ span marginals / Σ (n − 1) over the sentences: 1 if the inside algorithm is exact
    symbols_in_use: float | None  # perplexity of the distribution of nonterminals: the effective number in use
    symbols: int | None  # number of nonterminals


class SnapshotTaker:
    """Takes snapshots of a model on the same sentences every time.

    Nothing is drawn at random and nothing is changed, so that training continues as it would have without it.
    """

    def __init__(self, sentences: Sequence[Sequence[int]], vocabulary: Vocabulary) -> None:
        lengths = sentence_lengths(sentences)
        fitting = [index for index, length in enumerate(lengths) if SHORTEST <= length <= LONGEST]
        fitting = fitting or sorted((i for i, length in enumerate(lengths) if length >= 2), key=lengths.__getitem__)
        chosen = fitting[:SENTENCES]
        # The sample parse is of the first sentence: one that is long enough to be interesting and fits a terminal.
        chosen.sort(key=lambda index: abs(lengths[index] - SAMPLE_LENGTH))
        self._batch: Batch | None = collate(sentences, chosen) if chosen else None
        self._words = vocabulary.decode(sentences[chosen[0]]) if chosen else []

    def take(self, model: Model, device: torch.device) -> Snapshot | None:
        """Return a snapshot of the model; None without sentences, for a model without trees, or out of memory."""
        if self._batch is None:
            return None
        batch = self._batch.to(device)
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                grammar = model.grammar() if model.shares_rules else model.grammar(batch.words, batch.lengths)
                return self._describe(grammar, batch)
        except torch.OutOfMemoryError:
            return None
        finally:
            model.train(was_training)

    def _describe(self, grammar: Grammar, batch: Batch) -> Snapshot | None:
        if isinstance(grammar, HiddenMarkovModel):
            return None
        marginals = grammar.span_marginals(batch.words, batch.lengths)  # [B, n + 1, n + 1]
        expected_spans = marginals.sum((1, 2), dtype=torch.float64).cpu()
        possible = expected_spans > 0
        expected = torch.where(possible, batch.lengths.cpu() - 1, 0).sum()
        identity = float(expected_spans.sum() / expected) if expected else None
        first = int(batch.lengths[0])
        tree = None
        if bool(possible[0]):
            spans = grammar.decode(batch.words, batch.lengths)[0]
            tree = SpanTree.from_spans(self._words[:first], spans)
        in_use = symbols = None
        if isinstance(grammar, SimpleGrammar | DenseGrammar):
            uses = grammar.symbol_marginals(batch.words, batch.lengths).sum((0, 1, 2), dtype=torch.float64)
            symbols = len(uses)
            if float(uses.sum()) > 0:
                in_use = float(torch.special.entr(uses / uses.sum()).sum().exp())
        return Snapshot(tree, identity, in_use, symbols)
