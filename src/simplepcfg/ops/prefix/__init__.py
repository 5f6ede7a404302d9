"""Exact prefix probabilities of a simple PCFG: the probability that a sentence begins with given words."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import Sentences, SimpleRules, check_arguments, check_prefix_lengths
from simplepcfg.ops.autograd_context import requires_graph
from simplepcfg.ops.logs import log_share
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.prefix.charts import chosen_backend, inside_rows
from simplepcfg.ops.prefix.closure import Closure, left_corner_closure, termination_probabilities
from simplepcfg.ops.prefix.growing import GrowingPrefix
from simplepcfg.ops.prefix.left_to_right import LeftToRight, Places, left_to_right
from simplepcfg.ops.prefix.pruned import (
    MOST_LOST,
    SENTENCE_THRESHOLD,
    THRESHOLD,
    pruned_left_to_right,
)

__all__ = [
    "SENTENCE_THRESHOLD",
    "Closure",
    "GrowingPrefix",
    "PrefixStates",
    "left_corner_closure",
    "prefix_log_probabilities",
    "prefix_states",
    "pruned_prefix_states",
    "termination_probabilities",
]


@without_modes
def prefix_log_probabilities(
    rules: SimpleRules, sentences: Sentences, *, closure: Closure | None = None, backend: str = "auto"
) -> Tensor:
    """Compute log P(a sentence begins with w_0 … w_{m−1}) for every m = 0 … n.

    Args:
        rules: those of a grammar; the rows of left and right must sum to 1.
        sentences: without a span bonus.
        closure: the result of ``left_corner_closure`` for these rules, if it has been computed before.
        backend: "auto", "torch" or "triton", the backend of the inside chart.

    Returns:
        ``[B, n + 1]`` in nats. Entry 0 is 0, and entries beyond the length of a sentence are −inf. The result is
        float64 for emissions of any dtype, because surprisals are differences of neighbouring entries.

    Raises:
        InputError: as ``inside`` does, if rows do not sum to 1, or if an argument requires gradients.
        NumericalError: if some nonterminal never produces a first word.

    >>> sentences = Sentences(torch.zeros(1, 3, 1))             # one preterminal, which emits its word with p = 1
    >>> sides = torch.full((1, 2), 0.5)                         # a sentence ends after two words with probability 1/4
    >>> prefix_log_probabilities(SimpleRules(torch.ones(1), sides, sides), sentences).exp()
    tensor([[1.0000, 1.0000, 1.0000, 0.7500]], dtype=torch.float64)
    """
    return prefix_states(rules, sentences, closure=closure, backend=backend, ends=False).log_prefix


@dataclass(frozen=True)
class PrefixStates:
    """Probabilities of each prefix w_0 … w_{m−1}, m = 0 … n, and the states that predict the next word."""

    log_prefix: Tensor  # [B, n + 1] float64: log P(a sentence begins with the prefix)
    log_sentence: Tensor  # [B, n + 1] float64, or [B, n] without ``ends``: log P(the prefix is a whole sentence)
    states: LeftToRight  # of the sentences, with ``ends`` after one arbitrary word has been added

    @property
    def preterminals(self) -> int:
        """Number of preterminals."""
        return self.states.arguments.sizes[3]

    def next_tags(self, positions: slice, kind: torch.dtype = torch.float64) -> Tensor:
        """Compute P(preterminal of the next word given the prefix): [B, positions, P] in the dtype ``kind``.

        The sum is 1 minus the probability that the sentence ends. After a prefix of probability 0 all entries are 0.
        """
        return self._tags((slice(None), positions), kind)

    def tags_at(self, sentences: Tensor, positions: Tensor, kind: torch.dtype = torch.float64) -> Tensor:
        """Compute ``next_tags`` of some prefixes, given by sentence [R] and position [R]: [R, P]."""
        if self.states.arguments.batched_rules:
            return self.next_tags(slice(0, int(positions.max()) + 1), kind)[sentences, positions]
        return self._tags((sentences, positions), kind)

    @without_modes
    def _tags(self, at: Places, kind: torch.dtype) -> Tensor:
        log_prefix = self.log_prefix[at]
        log_scale = self.states.exponents[at] * math.log(2) + self.states.log_words[at]
        tags = self.states.tag_weights(at, log_share(log_scale, log_prefix).exp(), kind)
        return tags.masked_fill_((log_prefix == -math.inf)[..., None], 0.0)


@without_modes
def prefix_states(
    rules: SimpleRules,
    sentences: Sentences,
    *,
    closure: Closure | None = None,
    backend: str = "auto",
    ends: bool = True,
) -> PrefixStates:
    """Compute the probability and the state of every prefix of every sentence, including the empty one.

    The arguments are those of ``prefix_log_probabilities``, but n and lengths may be 0. With
    ``ends=False`` the end of each sentence and what may follow it need not be computed: what is said about the next
    word and about the end is then right for prefixes shorter than the sentence, and others may be missing.

    Raises:
        InputError: as ``prefix_log_probabilities`` does.
    """
    log_emissions, lengths = sentences.log_emissions, sentences.lengths
    if requires_graph(log_emissions, *rules.tensors):
        raise InputError("prefix states cannot be differentiated; ask for them under torch.no_grad()")
    if log_emissions.dim() != 3:
        raise InputError(f"log_emissions has shape {list(log_emissions.shape)}; it must be [B, n, P]")
    _refuse_bonus(sentences)
    n = log_emissions.shape[1]
    # One arbitrary word is added: the state before it predicts what follows each sentence. The chart of the Triton
    # backend always needs it, since it has no rows for sentences of one word.
    extra = 1 if ends or n == 0 or chosen_backend(backend, log_emissions) == "triton" else 0
    longer = F.pad(log_emissions, (0, 0, 0, extra))
    charted = None
    if lengths is not None:
        lengths = check_prefix_lengths(lengths, len(longer), n)
        beyond = torch.arange(n + extra, device=longer.device) >= lengths.to(longer.device)[:, None]
        longer = longer.masked_fill(beyond[..., None], 0.0)
        charted = (lengths + extra).clamp(min=1)
        lengths = None if bool((lengths == n).all()) else lengths
    arguments = check_arguments(rules, Sentences(longer, charted))
    with torch.no_grad():
        closure = left_corner_closure(arguments.rules) if closure is None else closure
        states = left_to_right(arguments, closure, inside_rows(arguments, backend))
        # The probability of the added word itself is dropped.
        log_prefix = F.pad(states.log_next[:, :n], (1, 0))
        whole = None if lengths is None else lengths - 1 + extra
        return PrefixStates(_within(log_prefix, lengths), _within(states.log_sentences, whole), states)


@without_modes
def pruned_prefix_states(
    rules: SimpleRules,
    sentences: Sentences,
    closure: Closure,
    *,
    ends: bool = True,
    threshold: float = THRESHOLD,
) -> tuple[PrefixStates, Tensor] | None:
    """Compute ``prefix_states`` without nodes that are improbable given the words up to their end.

    The rules are on a CPU and have no batch dimension, and every sentence has a word.

    Returns:
        ``(states, errors)``. All probabilities in the states are lower bounds. ``errors`` [B, n + 1] estimates by how
        many nats the surprisal of each word, and of the end, is too large; 0 beyond the end. None if a value left the
        floating-point range, or if a prefix lost most of its probability.

    Raises:
        InputError: as ``prefix_log_probabilities`` does.
    """
    _refuse_bonus(sentences)
    arguments = check_arguments(rules, sentences)
    batch, n, _, _ = arguments.sizes
    lengths = torch.full((batch,), n) if arguments.lengths is None else arguments.lengths
    with torch.no_grad():
        states, kept = pruned_left_to_right(arguments, closure, lengths, threshold, ends)
        places = torch.arange(n + 1)
        kept = kept.masked_fill(places + (0 if ends else 1) > lengths[:, None], 1.0)
        whole = states.log_sentences[torch.arange(batch), lengths][lengths > 1]
        if not bool((kept > 1 - MOST_LOST).all()) or (ends and not bool(whole.isfinite().all())):
            return None
        log_prefix = _within(states.log_words, lengths)
        return PrefixStates(log_prefix, _within(states.log_sentences, lengths), states), kept.clamp(max=1.0).log().abs()


def _refuse_bonus(sentences: Sentences) -> None:
    if sentences.span_bonus is not None:
        raise InputError("span_bonus: the spans of a prefix are not complete; leave the bonus out")


def _within(logs: Tensor, lengths: Tensor | None) -> Tensor:
    """Set prefixes longer than their sentence to −inf, and clamp rounding errors above 0."""
    logs = logs.clamp(max=0.0)
    if lengths is None:
        return logs
    beyond = torch.arange(logs.shape[1]) > lengths[:, None]
    return logs.masked_fill(beyond.to(logs.device), -math.inf)
