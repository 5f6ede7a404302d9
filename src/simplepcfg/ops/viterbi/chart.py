"""The Viterbi chart in log space in plain PyTorch, with the packed layout of the inside algorithm."""

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.descent import Nodes, descend
from simplepcfg.ops.inside.layout import ChartLayout, make_layout

# The size of the temporary tensor of a max-plus product: it fits the cache of one core, or a small part of GPU memory.
CACHE_BYTES = 1 << 19
DEVICE_BYTES = 1 << 28


class ViterbiChart:
    """A chart of log-probabilities: ``best`` [rows, N] holds β*, ``children`` [rows, 2N] holds η* and ζ*."""

    def __init__(self, arguments: InsideArguments) -> None:
        self.arguments = arguments
        self.batch, n, self.states, self.tags = arguments.sizes
        self.device, self.dtype = arguments.log_emissions.device, arguments.log_emissions.dtype
        lengths = (n,) * self.batch if arguments.lengths is None else tuple(arguments.lengths.tolist())
        self.layout: ChartLayout = make_layout(n, lengths, self.device)
        self.layout.use_on_current_stream()
        layout = self.layout
        sentence = layout.sentence_of_row[: layout.words].long()
        position = torch.arange(layout.words, device=self.device) - layout.words_before[sentence]
        self.emit = arguments.log_emissions.detach()[layout.order[sentence].long(), position]  # [words, P]
        self.best = torch.empty(layout.rows, self.states, dtype=self.dtype, device=self.device)
        self.children = torch.empty(layout.rows, 2 * self.states, dtype=self.dtype, device=self.device)
        self.bonus = None
        if arguments.span_bonus is not None:  # [rows of width 2 or more]
            self.bonus = arguments.span_bonus.detach().reshape(-1)[layout.cells]
        self.make_rules()

    def make_rules(self) -> None:
        """Compute the stacked log-rules log L and log R: [(B,) 2N, N + P]."""
        rules = torch.cat([self.arguments.left.detach(), self.arguments.right.detach()], -2)
        self.rules = rules.to(self.dtype).log_()

    def fill(self) -> Tensor:
        """Run the recursion; return the log-probability of each sentence's best tree, in the layout's order: [B]."""
        layout = self.layout
        self.multiply(1)
        for width in range(2, layout.n + 1):
            self.split_maxima(width)
            if layout.inner[width]:
                self.multiply(width)
        self.top = self.best[layout.top_rows.clamp(min=0).long()] + self._root()  # [B, N]
        return torch.where(layout.top_rows >= 0, self.top.amax(-1), -torch.inf)

    def _root(self) -> Tensor:
        root = self.arguments.root.detach().log()
        return root[self.layout.order.long()] if root.dim() == 2 else root

    def split_maxima(self, width: int) -> None:
        """Compute β* of a width: the maximum over the splits of each span."""
        layout, states = self.layout, self.states
        rows = layout.width(width)
        offset = torch.arange(rows.stop - rows.start, device=self.device)
        b = layout.sentence_of_row[rows].long()
        best = self.best[rows]
        for k in range(1, width):
            before = self.children[:, :states].index_select(0, layout.first[k] + offset + b * (width - k))
            after = self.children[:, states:].index_select(0, layout.first[width - k] + offset + b * k + k)
            if k == 1:
                torch.add(before, after, out=best)
            else:
                torch.maximum(best, before.add_(after), out=best)
        if self.bonus is not None:
            best += self.bonus[rows.start - layout.words : rows.stop - layout.words, None]

    def multiply(self, width: int) -> None:
        """Compute η* and ζ* of the rows of a width that have parents: the max-plus product of β* with [L | R]."""
        rows = self.layout.with_parents(width)
        values = self.emit if width == 1 else self.best
        columns = slice(self.states, None) if width == 1 else slice(0, self.states)
        if self.rules.dim() == 2:
            max_plus(values[rows], self.rules[:, columns], self.children[rows])
            return
        for part, sentence in self.layout.sentence_rows(width):
            max_plus(values[part], self.rules[sentence, :, columns], self.children[part])

    def trees(self, best: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return spans, splits, labels and tags of the best trees, in the batch's order, given ``fill``'s result."""
        layout = self.layout
        roots = torch.where(best > -torch.inf, self.top.argmax(-1), -1)
        nodes = Nodes.begin(roots, layout.length_of_sentence.long(), layout.n)
        self.descend(nodes)
        back = layout.order.long().argsort()
        spans, splits, labels, tags = (tensor[back] for tensor in nodes.to_tensors())
        return spans, splits, labels, tags

    def descend(self, nodes: Nodes) -> None:
        """Add all nodes below the first of each tree, by repeating the maximisations of the recursion."""
        descend(nodes, self._choose)

    def rows_of(self, b: Tensor, start: Tensor, width: Tensor) -> Tensor:
        """Return the rows of spans of the b-th longest sentences; a valid row of another span if there is none."""
        layout = self.layout
        rows = layout.first_rows[width].long() + layout.words_before[b] - b * (width - 1) + start
        return rows.clamp(max=layout.rows - 1)

    def rule_row(self, b: int, rule: int, wide: bool) -> Tensor:
        """Return a row of the log-rules of the b-th longest sentence: nonterminal columns if ``wide``, else others."""
        rules = self.rules if self.rules.dim() == 2 else self.rules[self.layout.sentences[b]]
        return rules[rule, : self.states] if wide else rules[rule, self.states :]

    def _choose(
        self, step: int, start: Tensor, end: Tensor, label: Tensor, active: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        layout, states = self.layout, self.states
        b = torch.arange(self.batch, device=self.device)
        k = torch.arange(1, layout.n, device=self.device)
        width = (end - start)[:, None]
        before = self.rows_of(b[:, None], start[:, None], k.minimum(width))
        after = self.rows_of(b[:, None], start[:, None] + k, (width - k).clamp(min=1))
        scores = self.children[before, label[:, None]] + self.children[after, states + label[:, None]]
        split = start + 1 + scores.masked_fill(k >= width, -torch.inf).argmax(1)  # of equal ones the leftmost
        left = self._best_child(b, start, split - start, label)
        return split, left, self._best_child(b, split, end - split, states + label)

    def _best_child(self, b: Tensor, start: Tensor, width: Tensor, rule: Tensor) -> Tensor:
        states = self.states
        rows = self.rows_of(b, start, width)
        rules = self.rules[rule] if self.rules.dim() == 2 else self.rules[self.layout.order.long(), rule]
        inner = (rules[:, :states] + self.best[rows]).argmax(1)
        word = (rules[:, states:] + self.emit[rows.clamp(max=self.layout.words - 1)]).argmax(1)
        return torch.where(width > 1, inner, word)


def max_plus(values: Tensor, rules: Tensor, out: Tensor) -> None:
    """Compute out[r, a] = max_b (rules[a, b] + values[r, b]) in blocks whose temporary tensor is small."""
    (rows, symbols), parents = values.shape, rules.shape[0]
    room = CACHE_BYTES if values.device.type == "cpu" else DEVICE_BYTES
    pairs = max(1, room // (symbols * values.element_size()))  # pairs of a row and a parent in one block
    together = max(1, pairs // parents)
    step = min(parents, pairs)
    for first in range(0, parents, step):
        some = rules[first : first + step]
        for row in range(0, rows, together):
            part = values[row : row + together]
            torch.amax(part[:, None, :] + some, 2, out=out[row : row + together, first : first + step])
