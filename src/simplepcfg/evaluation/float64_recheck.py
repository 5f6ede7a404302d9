"""Sentences to which float32 gives probability 0, looked at again in float64 before they are called impossible.

Emissions are logs and rules are probabilities; the inside and forward algorithms take each word's best emission out and
hold the others as multiples of it, which in float32 are 0 below e⁻¹⁰³. Float64 reaches e⁻⁷⁴⁵.
"""

import os
import warnings
from typing import Any

import torch
from torch import Tensor

from simplepcfg.grammars import Grammar
from simplepcfg.grammars.tensor_fields import bytes_in_float64, in_float64

# The rules in float64 may take this share of the machine's memory, or of what is free on a GPU.
SHARE = 4


class SecondLook:
    """log p in float64 of sentences that have none in float32; shared rules are converted once, for the first one."""

    def __init__(self, model: Any, grammar: Grammar | None) -> None:
        self.model = model
        self.grammar = grammar  # None where each sentence has its own
        self._wide: Grammar | None = None
        self._refused = False

    def mended(self, scores: Tensor, words: Tensor, lengths: Tensor, span_bonus: Tensor | None = None) -> Tensor:
        """``scores`` [B] of a batch as float64 on the CPU, those of −inf computed again."""
        found = scores.to("cpu", torch.float64, copy=True)
        rows = torch.isneginf(found).nonzero()[:, 0]
        if not len(rows):
            return found
        # Rules of each sentence's own are converted sentence by sentence.
        for some in rows.split(len(rows) if self.grammar is not None else 1):
            longest, there = int(lengths[some].max()), some.to(words.device)
            bonus = None if span_bonus is None else span_bonus[there, : longest + 1, : longest + 1]
            found[some] = self._scores(words[there, :longest], lengths[some], bonus)
        return found

    def _scores(self, words: Tensor, lengths: Tensor, span_bonus: Tensor | None) -> Tensor:
        impossible = torch.full((len(words),), -torch.inf, dtype=torch.float64)
        grammar, kl = self.grammar, None
        if grammar is None:
            posterior = self.model.posterior(words, lengths)
            grammar, kl = self.model.grammar_of(posterior.mean), posterior.divergence().double().cpu()
        if self._wide is None and not self._has_room(grammar, words.device):
            return impossible
        wide = in_float64(grammar) if self._wide is None else self._wide
        if self.grammar is not None:
            self._wide = wide
        found = wide.log_partition(words, lengths, span_bonus=span_bonus).cpu()
        return found if kl is None else found - kl

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
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // SHARE
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // SHARE
    except (AttributeError, ValueError, OSError):  # not every system tells
        return 2**30
