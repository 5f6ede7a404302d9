"""Prefix probabilities of hidden Markov models, and the distribution of the next state."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import check_prefix_lengths
from simplepcfg.ops.forward.arguments import Transitions, check_arguments
from simplepcfg.ops.forward.filtering import filtered, filtering, next_states
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.products import matrix_mode
from simplepcfg.ops.tag_prefixes import GrowingTags, TagPrefixes


@without_modes
def forward_prefixes(
    log_emissions: Tensor,
    start: Tensor,
    transitions: Transitions,
    *,
    lengths: Tensor | None = None,
    precision: str | None = None,
) -> TagPrefixes:
    """Compute the probabilities of all prefixes of each sentence, and those of the next state.

    The arguments are those of ``forward``, but n and lengths may be 0. Differentiable by autograd.
    ``log_sentence`` is −inf except at the end of a sentence, after which no state comes: its tags are 0.
    """
    batch, n, _ = log_emissions.shape
    ends = check_prefix_lengths(lengths, batch, n)
    posts, at = torch.arange(n + 1), ends[:, None]
    beyond, end = (mask.to(log_emissions.device) for mask in (posts > at, posts == at))
    # One arbitrary word is added: the state before it is the state after the last word.
    longer = F.pad(log_emissions.masked_fill(beyond[:, 1:, None], 0.0), (0, 0, 0, 1))
    given = check_arguments(longer, start, transitions, None, precision)
    with matrix_mode(precision, log_emissions.device):
        steps = list(filtering(given))
    log_words = torch.stack([log_word for _, log_word in steps[:-1]], 1) if n else longer[:, :0, 0]
    log_prefix = F.pad(log_words.double().cumsum(1), (1, 0)).clamp(max=0.0).masked_fill(beyond, -math.inf)
    log_sentence = log_prefix.masked_fill(~end, -math.inf)
    gone = beyond | end | (log_prefix == -math.inf)
    next_state = torch.stack([predicted for predicted, _ in steps], 1)
    next_state = next_state / next_state.sum(-1, keepdim=True).clamp(min=torch.finfo(next_state.dtype).tiny)
    return TagPrefixes(log_prefix, log_sentence, next_state.masked_fill(gone[..., None], 0.0))


class GrowingForward(GrowingTags):
    """Growing prefixes of a hidden Markov model, with probabilities of states in place of preterminals."""

    by_prefix = ("log_prefix", "next_state")

    def __init__(self, start: Tensor, transitions: Transitions) -> None:
        factors = (transitions,) if isinstance(transitions, Tensor) else tuple(transitions)
        if start.dim() != 1 or factors[0].dim() != 2:
            raise InputError(f"start has shape {list(start.shape)}; a growing prefix takes one model for all sentences")
        self._factors = [factor.detach().double() for factor in factors]
        self.next_state = start.detach().double()[None]  # [prefixes, S]: probabilities of the next state
        self.log_prefix = self.next_state.new_zeros(1)

    def next_tags(self) -> Tensor:
        return self.next_state

    def log_end(self) -> Tensor:
        """Return log P(the sentence ends here given the prefix): −inf, because only the word `<eos>` ends it."""
        return torch.full_like(self.log_prefix, -math.inf)

    def bytes_per_prefix(self, longest: int) -> int:
        return 16 * self.next_state.shape[-1]

    @torch.no_grad()
    def push(self, log_emissions: Tensor) -> None:
        alpha, log_word = filtered(self.next_state, log_emissions.double())
        self.next_state, self.log_prefix = next_states(alpha, self._factors), self.log_prefix + log_word
        self.length += 1
