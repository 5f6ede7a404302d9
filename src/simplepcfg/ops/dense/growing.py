"""Prefixes under an ordinary PCFG that grow by a word at a time: each word costs its own column of the chart."""

import math

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.dense.log_space import _log_einsum_exp
from simplepcfg.ops.dense.prefix import corners_of
from simplepcfg.ops.logs import safe_log, safe_logsumexp


class GrowingDensePrefix:
    """X prefixes of equal length, at first one empty one; float64 throughout, rules shared by all, no gradients.

    Has what ``simplepcfg.ops.prefix.GrowingPrefix`` has, and is used as that is.
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
        self.log_prefix = zero  # [X]: log P(a sentence begins so)
        self.log_sentence = zero - math.inf  # [X]: log P(a sentence is just this)
        self.tags = start[None] @ self.to_words  # [X, P]: of the next word
        # By position: expected nonterminals that start there, [X, N], given the prefix before, and log P of that.
        self.expected, self.before = [start[None]], [zero]
        self.words: list[Tensor] = []  # [X, P], log-emissions
        self.columns: list[Tensor] = []  # by end j − 1: log β(i, j), [X, j, N], −inf for the last word alone

    def copy(self) -> "GrowingDensePrefix":
        """Another that grows on its own; no tensor is copied, as none is ever changed."""
        other = object.__new__(GrowingDensePrefix)
        other.__dict__.update(self.__dict__)
        for name in ("expected", "before", "words", "columns"):
            setattr(other, name, list(getattr(self, name)))
        return other

    def select(self, indices: Tensor) -> None:
        """Go on with these of the prefixes, in this order; one may be taken many times."""
        indices = indices.to(self.rules.device)
        self.log_prefix, self.log_sentence = self.log_prefix[indices], self.log_sentence[indices]
        self.tags = self.tags[indices]
        for name in ("expected", "before", "words", "columns"):
            setattr(self, name, [tensor[indices] for tensor in getattr(self, name)])

    def next_tags(self) -> Tensor:
        """P(the next word's preterminal | prefix): [X, P]; 0 after an impossible prefix."""
        return self.tags

    def log_end(self) -> Tensor:
        """log P(the sentence ends here | prefix): [X]; −inf after an impossible prefix."""
        impossible = self.log_prefix == -math.inf
        return (self.log_sentence - self.log_prefix.masked_fill(impossible, 0.0)).masked_fill(impossible, -math.inf)

    @property
    def length(self) -> int:
        """Words so far."""
        return len(self.words)

    def bytes_per_prefix(self, longest: int) -> int:
        """What one prefix holds when it has grown to so many words, the pairs of a column among it."""
        return 8 * (longest * longest * self.states // 2 + self.states * self.rules.shape[-1])

    @torch.no_grad()
    def push(self, log_emissions: Tensor) -> None:
        """Add a word to each prefix, given by its log-emissions: [X, P]."""
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
        """log β(i, j) of every span that ends with the last word, from the shortest up: [X, j, N]."""
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
        """log Σ over some splits of one span and pairs of children: [X, N]."""
        before, after = (torch.stack(rows, 1)[:, None] for rows in (left, right))  # [X, one span, splits, symbols]
        return _log_einsum_exp(before, after, self.rules[:, first, second])[:, 0]

    def _arriving(self) -> Tensor:
        """log of what starts after the last word as a right child: [X, S]."""
        wide = self._met(self.columns[-1], slice(0, len(self.words)), slice(self.states))
        last = slice(len(self.words) - 1, len(self.words))
        return torch.logaddexp(wide, self._met(self.words[-1][:, None], last, slice(self.states, None)))

    def _met(self, logs: Tensor, positions: slice, side: slice) -> Tensor:
        """What stands beside left children that start at some positions, log β [X, positions, Y]: log [X, S]."""
        best = logs.amax(-1)  # [X, positions]
        scale = best + torch.stack(self.before[positions], 1)
        expected = torch.stack(self.expected[positions], 1)  # [X, positions, N]: of their parents
        top = scale.amax(1)
        top = top.masked_fill(top == -math.inf, 0.0)
        values = (logs - best.masked_fill(best == -math.inf, 0.0)[..., None]).exp()
        pairs = torch.einsum("xia,xiy->xay", expected * (scale - top[:, None]).exp()[..., None], values)
        return safe_log(pairs.flatten(1) @ self.rules[:, side].flatten(0, 1)) + top[:, None]
