"""Prefixes that a run was asked to complete, kept so that a prefix that grows by a word costs that word alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from simplepcfg.grammars import Grammar
from simplepcfg.grammars.prefix import log_words_after
from simplepcfg.ops.prefix.growing import LEAST_CHARTED, GrowingPrefix
from simplepcfg.ops.tag_prefixes import GrowingTags

MOST_PREFIXES = 4
# The probabilities of all words are kept if they need at most so many bytes.
EMISSION_BYTES = 1 << 27


class KeptPrefixes:
    """The last prefixes of a grammar, by their word ids, and what the next word needs."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.states: OrderedDict[tuple[int, ...], GrowingTags] = OrderedDict()

    @torch.no_grad()
    def after(self, ids: Sequence[int]) -> GrowingTags:
        """Return the state after these words, which callers copy before they change it."""
        key = tuple(ids)
        known = max((other for other in self.states if other == key[: len(other)]), key=len, default=())
        charted = isinstance(before := self.states.get(known), GrowingPrefix) and before.log_prefix.device.type == "cpu"
        if charted and len(key) - len(known) >= LEAST_CHARTED:
            known = ()  # A chart of the whole prefix takes less time.
        if known == key and known:
            self.states.move_to_end(key)
            return self.states[key]
        state = self.states[known].copy() if known else self.grammar.growing_prefix()
        if len(key) > len(known):
            words = torch.tensor(key[len(known) :], device=state.log_prefix.device)[None]
            emissions = self.grammar.emissions.log_probabilities(words)[0]  # [m, P]
            state.push_all(emissions)
        self.states[key] = state
        while len(self.states) > MOST_PREFIXES:
            self.states.popitem(last=False)
        return state

    @torch.no_grad()
    def next_words(self, state: GrowingTags) -> Tensor:
        """Return P(next word) of every id and, last, P(end) after each prefix, [S, V + 1] float64."""
        tags, log_end = state.next_tags(), state.log_end()
        if self._emissions is None:
            return log_words_after(self.grammar.emissions, tags, log_end).exp()
        # A float32 number has the digits of the emissions; the largest weight is 1, so that none that counts is lost.
        words = (tags.float() @ self._emissions).double()
        return torch.cat([words, log_end.exp()[:, None]], -1)

    @cached_property
    def _emissions(self) -> Tensor | None:
        """P(word | preterminal) of all words [P, V]; None where it needs too much memory, or on a GPU."""
        emissions = self.grammar.emissions
        one = emissions.of_words(0, 1)
        if one.dim() != 2 or one.is_cuda or one.dtype != torch.float32:
            return None
        if 4 * one.shape[1] * emissions.vocabulary_size > EMISSION_BYTES:
            return None
        return emissions.of_words(0, emissions.vocabulary_size).exp().T.contiguous()
