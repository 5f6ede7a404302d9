"""Prefixes under an ordinary PCFG that are extended word by word; each word adds one column to the chart."""

import math

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.dense.log_space import _log_einsum_exp
from simplepcfg.ops.dense.prefix import corners_of
from simplepcfg.ops.logs import safe_log, safe_logsumexp


class GrowingDensePrefix:
    """X prefixes of equal length under one grammar, initially a single empty one; in float64, without gradients.

    The interface is that of ``simplepcfg.ops.prefix.GrowingPrefix``.
    """

    @torch.no_grad()
    def __init__(self, root: Tensor, rules: Tensor) -> None:
        if root.dim() != 1 or rules.dim() != 3:
            raise InputError(
                f"rules has shape {list(rules.shape)}; a growing prefix takes one grammar for all sentences"
            )
        self.rules, self.states = rules.double(), root.shape[-1]
        start, self.corners, self.to_words = corners_of(root.double(), self.rules)
        self.log_root = root.double().log()
        zero = torch.zeros(1, dtype=torch.float64, device=rules.device)
        self.log_prefix = zero  # [X]: log P(a sentence begins with the prefix)
        self.log_sentence = zero - math.inf  # [X]: log P(the prefix is a whole sentence)
        self.tags = start[None] @ self.to_words  # [X, P]: of the next word
        # By position: the expected number of nonterminals that start there given the prefix, [X, N], and its log P.
        self.expected, self.before = [start[None]], [zero]
        self.words: list[Tensor] = []  # [X, P], log-emissions
        self.columns: list[Tensor] = []  # by end j − 1: log β(i, j), [X, j, N], −inf for the last word alone

    def copy(self) -> "GrowingDensePrefix":
        """Return an independent copy, which shares all tensors, because none is modified in place."""
        other = object.__new__(GrowingDensePrefix)
        other.__dict__.update(self.__dict__)
        for name in ("expected", "before", "words", "columns"):
            setattr(other, name, list(getattr(self, name)))
        return other

    def select(self, indices: Tensor) -> None:
        """Keep the prefixes with these indices, in this order; an index may occur repeatedly."""
        indices = indices.to(self.rules.device)
        self.log_prefix, self.log_sentence = self.log_prefix[indices], self.log_sentence[indices]
        self.tags = self.tags[indices]
        for name in ("expected", "before", "words", "columns"):
            setattr(self, name, [tensor[indices] for tensor in getattr(self, name)])

    def next_tags(self) -> Tensor:
        """Compute P(preterminal of the next word given the prefix): [X, P]; 0 after a prefix of probability 0."""
        return self.tags

    def log_end(self) -> Tensor:
        """Compute log P(the sentence ends here given the prefix): [X]; −inf after a prefix of probability 0."""
        impossible = self.log_prefix == -math.inf
        return (self.log_sentence - self.log_prefix.masked_fill(impossible, 0.0)).masked_fill(impossible, -math.inf)

    @property
    def length(self) -> int:
        """Number of words."""
        return len(self.words)

    def bytes_per_prefix(self, longest: int) -> int:
        """Return the memory of one prefix of so many words in bytes, including the pairs of one column."""
        return 8 * (longest * longest * self.states // 2 + self.states * self.rules.shape[-1])

    @torch.no_grad()
    def push(self, log_emissions: Tensor) -> None:
        """Add a word to each prefix, given its log-emissions [X, P]."""
        word = log_emissions.double()
        self.log_prefix = self.log_prefix + safe_logsumexp(safe_log(self.tags) + word, -1)
        self.words.append(word)
        self.columns.append(self._column())
        self.log_sentence = safe_logsumexp(self.columns[-1][:, 0] + self.log_root, -1)
        possible = self.log_prefix > -math.inf
        here = (self._arriving() - torch.where(possible, self.log_prefix, 0.0)[:, None]).exp()
        here = here.masked_fill(~possible[:, None], 0.0)
        self.expected.append(here[:, : self.states] @ self.corners)
        self.before.append(self.log_prefix)
        self.tags = here[:, self.states :] + self.expected[-1] @ self.to_words

    def _column(self) -> Tensor:
        """Compute log β(i, j) of every span that ends with the last word: [X, j, N]."""
        j = len(self.words)
        states, words = slice(self.states), slice(self.states, None)
        nothing = torch.full_like(self.expected[0][:1], -math.inf).expand(self.log_prefix.shape[0], -1)
        found = {j - 1: nothing}
        for i in range(j - 2, -1, -1):
            if i == j - 2:
                kinds = [([self.words[i]], [self.words[j - 1]], words, words)]
            else:
                kinds = [
                    ([self.words[i]], [found[i + 1]], words, states),
                    ([self.columns[j - 2][:, i]], [self.words[j - 1]], states, words),
                ]
            between = range(i + 2, j - 1)
            if between:
                left, right = [self.columns[k - 1][:, i] for k in between], [found[k] for k in between]
                kinds.append((left, right, states, states))
            found[i] = safe_logsumexp(torch.stack([self._combined(*kind) for kind in kinds]), 0)
        return torch.stack([found[i] for i in range(j)], 1)

    def _combined(self, left: list[Tensor], right: list[Tensor], first: slice, second: slice) -> Tensor:
        """Compute log Σ over some splits of one span and pairs of children: [X, N]."""
        before, after = (torch.stack(rows, 1)[:, None] for rows in (left, right))  # [X, one span, splits, symbols]
        return _log_einsum_exp(before, after, self.rules[:, first, second])[:, 0]

    def _arriving(self) -> Tensor:
        """Compute the log-weight of each symbol as a right child that starts after the last word: [X, S]."""
        wide = self._met(self.columns[-1], slice(0, len(self.words)), slice(self.states))
        last = slice(len(self.words) - 1, len(self.words))
        return torch.logaddexp(wide, self._met(self.words[-1][:, None], last, slice(self.states, None)))

    def _met(self, logs: Tensor, positions: slice, side: slice) -> Tensor:
        """Compute the log-weights [X, S] of right siblings, given log β [X, positions, Y] of left children."""
        best = logs.amax(-1)  # [X, positions]
        scale = best + torch.stack(self.before[positions], 1)
        expected = torch.stack(self.expected[positions], 1)  # [X, positions, N]: of their parents
        top = scale.amax(1)
        top = top.masked_fill(top == -math.inf, 0.0)
        values = (logs - best.masked_fill(best == -math.inf, 0.0)[..., None]).exp()
        pairs = torch.einsum("xia,xiy->xay", expected * (scale - top[:, None]).exp()[..., None], values)
        return safe_log(pairs.flatten(1) @ self.rules[:, side].flatten(0, 1)) + top[:, None]
