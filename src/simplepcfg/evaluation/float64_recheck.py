"""Recomputation in float64 of sentences that underflow to probability 0 in float32.

The inside and forward algorithms factor out each word's largest emission probability and hold the others relative to
it. In float32 these ratios underflow to 0 below e⁻¹⁰³, in float64 below e⁻⁷⁴⁵.
"""

import warnings
from typing import Any

import torch
from torch import Tensor

from simplepcfg.grammars import Grammar
from simplepcfg.ops.tensor_fields import bytes_in_float64, in_float64
from simplepcfg.runs.memory import available_memory, physical_memory

# The rules in float64 may take 1 / 4 of the machine's memory, or of the free memory of a GPU.
MEMORY_DIVISOR = 4


class Float64Recheck:
    """Recomputes log-likelihoods of −∞ in float64; rules that all sentences share are converted once.

    `grammar` is the shared grammar, or None where each sentence has its own.
    """

    def __init__(self, model: Any, grammar: Grammar | None) -> None:
        self.model = model
        self.grammar = grammar
        self._wide: Grammar | None = None
        self._refused = False

    def log_likelihoods(
        self, log_likelihoods: Tensor, words: Tensor, lengths: Tensor, span_bonus: Tensor | None = None
    ) -> Tensor:
        """Return the log-likelihoods [B] of a batch as float64 on the CPU, with those of −∞ recomputed.

        `words` is [B, n], `lengths` [B] and `span_bonus` [B, n + 1, n + 1]. Where the rules in float64 would take too
        much memory, a RuntimeWarning is given once and −∞ is kept.
        """
        values = log_likelihoods.to("cpu", torch.float64, copy=True)
        rows = torch.isneginf(values).nonzero()[:, 0]
        if not len(rows):
            return values
        # Where each sentence has its own rules, they are converted one sentence at a time.
        for some in rows.split(len(rows) if self.grammar is not None else 1):
            longest, there = int(lengths[some].max()), some.to(words.device)
            bonus = None if span_bonus is None else span_bonus[there, : longest + 1, : longest + 1]
            values[some] = self._recompute(words[there, :longest], lengths[some], bonus)
        return values

    def _recompute(self, words: Tensor, lengths: Tensor, span_bonus: Tensor | None) -> Tensor:
        impossible = torch.full((len(words),), -torch.inf, dtype=torch.float64)
        grammar, kl = self.grammar, torch.zeros((), dtype=torch.float64)
        if grammar is None:
            posterior = self.model.posterior(words, lengths)
            grammar, kl = self.model.grammar_of(posterior.mean), posterior.divergence().double().cpu()
        if self._wide is None and not self._has_room(grammar, words.device):
            return impossible
        wide = in_float64(grammar) if self._wide is None else self._wide
        if self.grammar is not None:
            self._wide = wide
        return wide.log_partition(words, lengths, span_bonus=span_bonus).cpu() - kl

    def _has_room(self, grammar: Grammar, device: torch.device) -> bool:
        needed, room = bytes_in_float64(grammar), _room(device)
        if needed > room and not self._refused:
            self._refused = True
            warnings.warn(
                "sentences have probability 0 in float32, which holds no emission below e^-103 of its word's best; "
                f"the rules in float64 take {needed / 2**30:.1f} GiB, of {room / 2**30:.1f} that may be used, so these "
                "sentences stay impossible",
                RuntimeWarning,
                stacklevel=2,
            )
        return needed <= room


def _room(device: torch.device) -> int:
    room = available_memory(device) if device.type == "cuda" else physical_memory()
    return 2**30 if room is None else room // MEMORY_DIVISOR
