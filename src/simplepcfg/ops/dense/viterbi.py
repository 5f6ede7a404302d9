"""The Viterbi algorithm of an ordinary PCFG in log space: the most probable labelled tree of each sentence."""

import math

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.dense.arguments import DenseArguments, check_dense_arguments
from simplepcfg.ops.dense.trees import dense_tree_log_probabilities
from simplepcfg.ops.descent import Nodes, descend
from simplepcfg.ops.trees import Trees, empty_trees

# Log-probabilities [spans, N, pairs] are computed for so many bytes of parents at a time, on a CPU within its cache.
SCORE_BYTES = {"cpu": 2 << 20, "cuda": 64 << 20}


@without_autocast
def dense_viterbi(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> Trees:
    """Find the most probable labelled tree of each sentence.

    The arguments are those of ``dense_inside``.

    Returns:
        ``Trees`` with leading dimension [B]. The log-probability is differentiable with respect to rules, emissions and
        bonus. Of equally probable trees the one with the leftmost split, then with the first symbols, is returned. A
        sentence of one word, or of probability 0, has no tree: its entries are -1 and its log-probability is -inf.

    Raises:
        InputError: as ``dense_inside`` does.
    """
    arguments = check_dense_arguments(log_emissions, root, rules, lengths, span_bonus)
    batch, n, _, _ = arguments.sizes
    if n == 1:
        return empty_trees(batch, arguments.log_emissions)
    with torch.no_grad():
        found = BestTrees(arguments).trees()
    sentence = torch.arange(batch, device=arguments.log_emissions.device)
    return Trees(*found, dense_tree_log_probabilities(arguments, sentence, *found))


class BestTrees:
    """The chart of the best log-probability of each symbol over each span; -inf if it is impossible."""

    def __init__(self, arguments: DenseArguments) -> None:
        self.arguments = arguments
        self.batch, self.n, self.states, self.tags = arguments.sizes
        self.rules = arguments.rules.log()  # [(B,) N, S, S]
        self.score_bytes = SCORE_BYTES.get(self.rules.device.type, SCORE_BYTES["cuda"])
        lengths = arguments.lengths_on_device
        every = torch.full((self.batch,), self.n, device=self.rules.device)
        self.lengths: Tensor = every if lengths is None else lengths
        posts, symbols = self.n + 1, self.states + self.tags
        self.cells = self.rules.new_full((self.batch, posts, posts, symbols), -math.inf)

    def trees(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return spans, splits, labels and tags of the best trees."""
        self.fill()
        rows = torch.arange(self.batch, device=self.cells.device)
        top = self.cells[rows, 0, self.lengths, : self.states] + self.arguments.root.log()
        best, roots = top.max(-1)
        impossible = (best == -math.inf) | (self.lengths < 2)
        nodes = Nodes.begin(roots.masked_fill(impossible, -1), self.lengths, self.n)
        descend(nodes, self._choose)
        return nodes.to_tensors()

    def fill(self) -> None:
        """Compute all cells, from the words up."""
        words, split, n = self.arguments.log_emissions, self.states, self.n
        rules = self.rules if self.arguments.batched_rules else self.rules[None]
        torch.diagonal(self.cells, 1, 1, 2)[:, split:].copy_(words.transpose(1, 2))
        # The best preterminal of each word for every parent and sibling is computed once.
        first = rules[..., split:, :split].transpose(-1, -2)  # [B, A, C, word]
        last = rules[..., :split, split:]  # [B, A, B, word]
        before = [self._over_words(words[:, i], first) for i in range(n)]
        after = [self._over_words(words[:, i], last) for i in range(n)]
        for width in range(2, n + 1):
            for i in range(n - width + 1):
                j = i + width
                if width == 2:
                    pairs = words[:, i, :, None] + words[:, i + 1, None, :]
                    best = self._over_pairs(pairs, rules[..., split:, split:])
                else:
                    best = (before[i] + self.cells[:, i + 1, j, None, :split]).amax(-1)
                    best = torch.maximum(best, (after[j - 1] + self.cells[:, i, j - 1, None, :split]).amax(-1))
                if width > 3:
                    left = self.cells[:, i, i + 2 : j - 1, :split]  # [B, splits, N]
                    right = self.cells[:, i + 2 : j - 1, j, :split]
                    pairs = (left[..., :, None] + right[..., None, :]).amax(1)  # [B, N, N]
                    best = torch.maximum(best, self._over_pairs(pairs, rules[..., :split, :split]))
                if self.arguments.span_bonus is not None:
                    best = best + self.arguments.span_bonus[:, i, j, None]
                self.cells[:, i, j, :split] = best

    def _over_words(self, word: Tensor, rules: Tensor) -> Tensor:
        """Compute max over T of word [B, P] + rules [(B or 1), N, N, P]: [B, N, N], some parents at a time."""
        step = max(1, self.score_bytes // (self.batch * self.states * self.tags * rules.element_size()))
        parts = [(rules[:, a : a + step] + word[:, None, None]).amax(-1) for a in range(0, self.states, step)]
        return torch.cat(parts, 1)

    def _over_pairs(self, pairs: Tensor, rules: Tensor) -> Tensor:
        """Compute max over (B, C) of pairs [B, X, Y] + rules [(B or 1), N, X, Y]: [B, N], some parents at a time."""
        step = max(1, self.score_bytes // (pairs.numel() * pairs.element_size()))
        parts = [(rules[:, a : a + step] + pairs[:, None]).amax((-1, -2)) for a in range(0, self.states, step)]
        return torch.cat(parts, 1)

    def _choose(
        self, step: int, start: Tensor, end: Tensor, label: Tensor, active: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Find the best split and children of each tree's node by repeating the maximisation."""
        del step
        trees = torch.arange(self.batch, device=start.device)
        rules = self.rules[trees, label] if self.arguments.batched_rules else self.rules[label]  # [T, S, S]
        best = torch.full_like(rules[:, 0, 0], -math.inf)
        split, pair = start + 1, torch.zeros_like(start)
        for k in range(1, int((end - start).max())):
            middle = torch.minimum(start + k, end - 1)
            scores = self.cells[trees, start, middle, :, None] + self.cells[trees, middle, end, None, :]
            value, index = (rules + scores).flatten(1).max(-1)
            better = (value > best) & (start + k < end)
            best, pair = torch.where(better, value, best), torch.where(better, index, pair)
            split = torch.where(better, middle, split)
        symbols = self.states + self.tags
        left, right = pair.div(symbols, rounding_mode="floor"), pair % symbols
        return split, self._as_child(left, split - start), self._as_child(right, end - split)

    def _as_child(self, symbol: Tensor, width: Tensor) -> Tensor:
        """Number preterminals from 0, as in trees."""
        return torch.where(width == 1, (symbol - self.states).clamp(min=0), symbol.clamp(max=self.states - 1))
