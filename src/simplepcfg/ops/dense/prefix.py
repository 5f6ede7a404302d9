"""Exact prefix probabilities of an ordinary PCFG, from left to right over the inside chart; README.md derives them."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import check_prefix_lengths
from simplepcfg.ops.dense.arguments import DenseArguments, check_dense_arguments
from simplepcfg.ops.dense.log_space import log_einsum_exp_chart
from simplepcfg.ops.logs import safe_log, safe_logsumexp
from simplepcfg.ops.prefix.closure import left_corner_closure


@dataclass(frozen=True, slots=True)
class DensePrefixes:
    """Probabilities of each prefix w_0 … w_{m−1}, m = 0 … n, and of the next preterminal, in float64."""

    log_prefix: Tensor  # [B, n + 1]: log P(a sentence begins with the prefix); −inf beyond the length
    log_sentence: Tensor  # [B, n + 1]: log P(the prefix is a whole sentence)
    tags: Tensor  # [B, n + 1, P]: P(preterminal of the next word given the prefix)

    @property
    def preterminals(self) -> int:
        """Number of preterminals."""
        return self.tags.shape[-1]

    def next_tags(self, positions: slice, kind: torch.dtype = torch.float64) -> Tensor:
        """Return P(preterminal of the next word given the prefix): [B, positions, P] in the dtype ``kind``."""
        return self.tags[:, positions].to(kind)

    def tags_at(self, sentences: Tensor, positions: Tensor, kind: torch.dtype = torch.float64) -> Tensor:
        """Return ``next_tags`` of some prefixes, given by sentence [R] and position [R]: [R, P]."""
        return self.tags[sentences, positions].to(kind)


def dense_prefixes(
    log_emissions: Tensor, root: Tensor, rules: Tensor, *, lengths: Tensor | None = None
) -> DensePrefixes:
    """Compute the probabilities of all prefixes of each sentence, and those of the next preterminal.

    The arguments are those of ``dense_inside``, but n and lengths may be 0, and the rules of each parent must sum to 1.
    The computation is in float64 and log space, and differentiable with respect to every tensor argument.
    """
    if log_emissions.dim() != 3:
        raise InputError(f"log_emissions has shape {list(log_emissions.shape)}; it must be [B, n, P]")
    batch, n, _ = log_emissions.shape
    ends = check_prefix_lengths(lengths, batch, n)
    beyond = torch.arange(n)[None] >= ends[:, None]
    words = log_emissions.double().masked_fill(beyond.to(log_emissions.device)[..., None], -math.inf)
    # A batch of empty sentences gets one word of probability 0.
    words = words if n else F.pad(words, (0, 0, 0, 1), value=-math.inf)
    given = check_dense_arguments(words, root.double(), rules.double(), None, None)
    found = _LeftToRight(given).run()
    return DensePrefixes(*(tensor[:, : n + 1] for tensor in found))


def corners_of(root: Tensor, rules: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute root · C, C = (I − L_N)⁻¹ and L_P, where L[A, B] = Σ_C rules[A, B, C]."""
    marginal = rules.sum(-1)  # [(B,) N, S]
    states = root.shape[-1]
    # With the identity as right rules, ``carry`` is the closure C itself.
    same = torch.eye(states, marginal.shape[-1], dtype=torch.float64, device=marginal.device)
    closure = left_corner_closure(root, marginal, same.expand_as(marginal))
    return closure.start, closure.carry, marginal[..., states:]


class _LeftToRight:
    """The probability of each prefix and of the symbols that start after it, position by position; see README.md."""

    def __init__(self, given: DenseArguments) -> None:
        self.given = given
        self.batch, self.n, self.states, _ = given.sizes
        start, self.corners, self.to_words = corners_of(given.root, given.rules)
        self.start = start.expand(self.batch, -1)
        self.beta = log_einsum_exp_chart(given)  # by width: [B, spans, P or N]
        self.arrived: list[list[Tensor]] = [[] for _ in range(self.n + 1)]  # by position: log [B, S], to be added up

    def run(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return log P(prefix), log P(sentence) and P(next preterminal given the prefix)."""
        log_prefix = self.given.log_emissions.new_zeros(self.batch)
        prefixes: list[Tensor] = [log_prefix]
        tags: list[Tensor] = []
        for j in range(self.n + 1):
            if j:
                words = self.given.log_emissions[:, j - 1]
                log_prefix = log_prefix + safe_logsumexp(safe_log(tags[-1]) + words, -1)
                prefixes.append(log_prefix)
            expected, next_tags = self._starting(j, log_prefix)
            tags.append(next_tags)
            if j < self.n:
                self._send(j, expected, log_prefix)
        return torch.stack(prefixes, 1), self._sentences(), torch.stack(tags, 1)

    def _starting(self, j: int, log_prefix: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the expected numbers of nonterminals [B, N] and preterminals [B, P] that start at j."""
        if j == 0:
            return self.start, _times(self.start, self.to_words)
        logs = safe_logsumexp(torch.stack(self.arrived[j]), 0)  # [B, S]: of the right child that starts here
        here = (logs - torch.where(log_prefix > -math.inf, log_prefix, 0.0)[:, None]).exp()
        expected = _times(here[:, : self.states], self.corners)
        return expected, here[:, self.states :] + _times(expected, self.to_words)

    def _send(self, i: int, expected: Tensor, log_prefix: Tensor) -> None:
        """Add the contribution of all left children that start at i to the symbols that start after them."""
        rules = self.given.rules
        met = _times(expected, rules.flatten(-2)).view(self.batch, *rules.shape[-2:])  # [B, S, S]
        word = self.beta[1][:, i : i + 1]
        self._arrive(i + 1, word, met[:, self.states :], log_prefix)
        if i + 2 <= self.n:
            wide = torch.stack([self.beta[width][:, i] for width in range(2, self.n - i + 1)], 1)
            self._arrive(i + 2, wide, met[:, : self.states], log_prefix)

    def _arrive(self, first: int, logs: Tensor, met: Tensor, log_prefix: Tensor) -> None:
        """Multiply log β [B, ends, X] of left children that end at ``first`` or later with their weights [B, X, S]."""
        best = logs.detach().amax(-1, keepdim=True)
        best = best.masked_fill(best == -math.inf, 0.0)
        found = safe_log(torch.matmul((logs - best).exp(), met)) + best + log_prefix[:, None, None]
        for place, row in enumerate(found.unbind(1)):
            self.arrived[first + place].append(row)

    def _sentences(self) -> Tensor:
        nothing = self.given.log_emissions.new_full((self.batch,), -math.inf)
        root = safe_log(self.given.root)
        whole = [safe_logsumexp(self.beta[width][:, 0] + root, -1) for width in range(2, self.n + 1)]
        return torch.stack([nothing, nothing, *whole], 1)[:, : self.n + 1]


def _times(rows: Tensor, matrix: Tensor) -> Tensor:
    """Multiply [B, X] with [(B,) X, Y]."""
    return rows @ matrix if matrix.dim() == 2 else torch.bmm(rows[:, None], matrix)[:, 0]
