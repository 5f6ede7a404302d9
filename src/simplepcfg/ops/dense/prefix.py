"""Exact prefix probabilities of an ordinary PCFG, from left to right over the inside chart; README.md derives them."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import SimpleRules, check_prefix_lengths
from simplepcfg.ops.dense.arguments import DenseArguments, check_dense_arguments
from simplepcfg.ops.dense.recursion import Sums, inside_cells, log_product
from simplepcfg.ops.logs import safe_log, safe_logsumexp
from simplepcfg.ops.prefix.closure import least_solution, left_corner_closure
from simplepcfg.ops.tag_prefixes import GrowingTags, TagPrefixes


def dense_prefixes(log_emissions: Tensor, root: Tensor, rules: Tensor, *, lengths: Tensor | None = None) -> TagPrefixes:
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
    table = _left_to_right(check_dense_arguments(words, root.double(), rules.double()))
    return TagPrefixes(*(tensor[:, : n + 1] for tensor in table))


def _left_to_right(given: DenseArguments) -> tuple[Tensor, Tensor, Tensor]:
    """Compute log P(prefix), log P(sentence) and P(next preterminal given the prefix), position by position."""
    batch, n, states, _ = given.sizes
    cells = inside_cells(given, Sums())
    marginal = given.rules.sum(-1)  # [(B,) N, S]: of left children
    # With the identity as right rules, ``carry`` is the closure C itself.
    identity = torch.eye(states, marginal.shape[-1], dtype=torch.float64, device=marginal.device)
    closure = left_corner_closure(SimpleRules(given.root, marginal, identity.expand_as(marginal)))
    log_prefix, to_words = cells.new_zeros(batch), marginal[..., states:]
    expected = closure.start.expand(batch, -1)  # of nonterminals that start at a position
    prefixes, tags = [log_prefix], [_times(expected, to_words)]
    arrived: list[list[Tensor]] = [[] for _ in range(n + 1)]  # by position: log [B, S], to be added up
    for i in range(n):
        # All left children that start at i contribute to the right children that start where they end.
        siblings = _times(expected, given.rules.flatten(-2)).unflatten(-1, (marginal.shape[-1], -1))  # [B, S, S]
        logs = log_product(cells[:, i, i + 1 :], siblings) + log_prefix[:, None, None]
        for place, row in zip(arrived[i + 1 :], logs.unbind(1), strict=True):
            place.append(row)
        log_prefix = log_prefix + safe_logsumexp(safe_log(tags[-1]) + given.log_emissions[:, i], -1)
        prefixes.append(log_prefix)
        here = safe_logsumexp(torch.stack(arrived[i + 1]), 0)
        here = (here - torch.where(log_prefix > -math.inf, log_prefix, 0.0)[:, None]).exp()
        expected = _times(here[:, :states], closure.carry)
        tags.append(here[:, states:] + _times(expected, to_words))
    log_sentence = safe_logsumexp(cells[:, 0, :, :states] + safe_log(given.root).unsqueeze(-2), -1)
    return torch.stack(prefixes, 1), log_sentence, torch.stack(tags, 1)


def _times(rows: Tensor, matrix: Tensor) -> Tensor:
    """Multiply [B, X] with [(B,) X, Y]."""
    return rows @ matrix if matrix.dim() == 2 else torch.bmm(rows[:, None], matrix)[:, 0]


@torch.no_grad()
def dense_termination_probabilities(root: Tensor, rules: Tensor) -> Tensor:
    """Compute the probability that a derivation is finite, 1 for a consistent grammar: a scalar or [B].

    It is root · q for the least solution of q[A] = Σ_B Σ_C rules[A, B, C] q[B] q[C], with q = 1 for preterminals.
    """
    root, rules = root.double(), rules.double()
    rules = rules / rules.sum((-1, -2), keepdim=True)
    states, symbols = root.shape[-1], rules.shape[-1]

    def equations(ends: Tensor) -> tuple[Tensor, Tensor]:
        every = F.pad(ends, (0, symbols - states), value=1.0)
        by_left = torch.einsum("...abc,...c->...ab", rules, every)  # summed over right children
        by_right = torch.einsum("...abc,...b->...ac", rules, every)
        return torch.einsum("...ab,...b->...a", by_left, every), (by_left + by_right)[..., :states]

    ends = least_solution(equations, torch.zeros(rules.shape[:-2], dtype=torch.float64, device=rules.device))
    return (root * ends).sum(-1) / root.sum(-1)


class GrowingDensePrefix(GrowingTags):
    """Growing prefixes of an ordinary PCFG; each call of ``push`` or ``push_all`` computes their charts anew."""

    by_prefix = ("log_prefix", "log_sentence", "tags", "words")

    def __init__(self, root: Tensor, rules: Tensor) -> None:
        if root.dim() != 1 or rules.dim() != 3:
            raise InputError(
                f"rules has shape {list(rules.shape)}; a growing prefix takes one grammar for all sentences"
            )
        self.root, self.rules = root.detach(), rules.detach()
        self.words = rules.new_zeros(1, 0, rules.shape[-1] - len(root), dtype=torch.float64)  # [S, n, P], log-emissions
        self._compute()

    def _compute(self) -> None:
        with torch.no_grad():
            table = dense_prefixes(self.words, self.root, self.rules)
        self.log_prefix, self.log_sentence = table.log_prefix[:, -1], table.log_sentence[:, -1]
        self.tags = table.tags[:, -1]  # [S, P]: of the next word
        self.length = self.words.shape[1]

    def next_tags(self) -> Tensor:
        return self.tags

    def bytes_per_prefix(self, longest: int) -> int:
        states, symbols = len(self.root), self.rules.shape[-1]
        return 8 * (2 * longest * longest * symbols + longest * 4 * states * states + symbols * symbols)

    def push(self, log_emissions: Tensor) -> None:
        self.words = torch.cat([self.words, log_emissions.double()[:, None]], 1)
        self._compute()

    def push_all(self, log_emissions: Tensor) -> None:
        self.words = torch.cat([self.words, log_emissions.double().expand(len(self.words), -1, -1)], 1)
        self._compute()
