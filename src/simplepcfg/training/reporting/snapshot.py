"""A look at a model in training: a sample parse, the symbols in use, and whether span marginals add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from simplepcfg.data.batching import Batch, collate
from simplepcfg.data.trees import SpanTree
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.grammars import DenseGrammar, Grammar, HiddenMarkovModel, SimpleGrammar

# Validation sentences that are looked at: few and short, so that a look costs little time and memory.
SENTENCES = 16
SHORTEST, LONGEST = 4, 12
SAMPLE_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a model makes of a few validation sentences; None where a model has no such thing."""

    tree: SpanTree | None  # of the same sentence every time, by span marginals
    identity: float | None  # Σ span marginals / Σ (n − 1) over the sentences: 1 if the inside algorithm is exact
    symbols_in_use: float | None  # perplexity of the nonterminals' shares: as if so many were used alike
    symbols: int | None


class Observer:
    """Looks at the same sentences every time.

    It draws nothing at random and changes nothing, so that training goes on as it would have without it.
    """

    def __init__(self, sentences: Sequence[Sequence[int]], vocabulary: Vocabulary) -> None:
        fitting = [index for index, item in enumerate(sentences) if SHORTEST <= len(item) <= LONGEST]
        fitting = fitting or sorted(
            (i for i, item in enumerate(sentences) if len(item) >= 2), key=lambda i: len(sentences[i])
        )
        chosen = fitting[:SENTENCES]
        # The sample first: of a length that shows something and fits a terminal.
        chosen.sort(key=lambda index: abs(len(sentences[index]) - SAMPLE_LENGTH))
        self._batch: Batch | None = collate(sentences, chosen) if chosen else None
        self._words = vocabulary.decode(sentences[chosen[0]]) if chosen else []

    def look(self, model: Any, device: torch.device) -> Snapshot | None:
        """A snapshot of the model with its present weights; None where there is nothing to look at or no memory."""
        if self._batch is None:
            return None
        batch = self._batch.to(device)
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                grammar = model.grammar() if model.shares_rules else model.grammar(batch.words, batch.lengths)
                return self._of(grammar, batch)
        except torch.OutOfMemoryError:
            return None
        finally:
            model.train(was_training)

    def _of(self, grammar: Grammar, batch: Batch) -> Snapshot | None:
        if isinstance(grammar, HiddenMarkovModel):
            return None
        marginals = grammar.span_marginals(batch.words, batch.lengths)  # [B, n + 1, n + 1]
        found = marginals.sum((1, 2), dtype=torch.float64).cpu()
        possible = found > 0
        expected = torch.where(possible, batch.lengths.cpu() - 1, 0).sum()
        identity = float(found.sum() / expected) if expected else None
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
