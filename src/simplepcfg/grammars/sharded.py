"""A simple PCFG whose parents and preterminals are sharded over the processes of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from simplepcfg.grammars.base import Grammar
from simplepcfg.grammars.emissions import Emissions
from simplepcfg.ops.arguments import InsideArguments, Sentences, check_lengths
from simplepcfg.ops.sharded_inside import sharded_inside, sharded_span_marginals
from simplepcfg.ops.shards import Shards


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ShardedGrammar(Grammar[object, object]):
    """The part of a ``SimpleGrammar`` that one process holds; every process must be asked the same question.

    It answers ``log_partition``, ``span_marginals`` and ``decode``, and refuses other questions by name.
    """

    family: ClassVar[str] = "a sharded grammar"
    alternative: ClassVar[str] = "save the model and ask it in one process"

    root: Tensor  # [N / K] or [B, N / K]
    left: Tensor  # [N / K, N + P] or [B, N / K, N + P]
    right: Tensor  # as left
    emissions: Emissions  # of P / K preterminals
    shards: Shards
    precision: str | None = None
    backend: str = "auto"

    @property
    def nonterminals(self) -> int:
        return self.root.shape[-1] * self.shards.size

    @property
    def span_numbers(self) -> int:
        return self.root.shape[-1]

    def log_emissions(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the log-probability of each word under this process's preterminals, [B, n, P / K].

        Given log-emissions are those of all preterminals.
        """
        emissions = Grammar.log_emissions(self, words, lengths)
        return emissions.chunk(self.shards.size, -1)[self.shards.rank] if words.is_floating_point() else emissions

    def _arguments(self, sentences: Sentences) -> InsideArguments:
        emissions = sentences.log_emissions
        lengths = check_lengths(sentences.lengths, *emissions.shape[:2])
        kind = emissions.dtype
        root, left, right = (tensor.to(kind) for tensor in (self.root, self.left, self.right))
        if emissions.is_cuda:  # where products read rules in bfloat16
            left, right = self.left, self.right
        return InsideArguments(emissions, root, left, right, lengths, sentences.span_bonus, self.precision)

    def _log_partition(self, sentences: Sentences) -> Tensor:
        return sharded_inside(self._arguments(sentences), self.shards, self.backend)

    def _span_marginals(self, sentences: Sentences) -> Tensor:
        with torch.no_grad():
            return sharded_span_marginals(self._arguments(sentences), self.shards, self.backend)
