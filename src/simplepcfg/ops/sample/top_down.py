"""Sampling of many trees in parallel from the top down, from tables of inside probabilities, in plain PyTorch."""

import math
from typing import Protocol

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.descent import Nodes, descend
from simplepcfg.ops.inside.scaled_chart import ScaledChart
from simplepcfg.ops.sample.draws import BEFORE_NODES, NODE_DRAWS, WEIGHTS_AT_ONCE, pick, pick_from_logs


class Tables(Protocol):
    """Inside probabilities, where each vector may have an arbitrary factor, and the rules."""

    @property
    def all_rules(self) -> Tensor:
        """L over R, [(B,) 2N, N + P]."""
        ...

    def split_logs(self, sentence: Tensor, start: Tensor, width: Tensor, label: Tensor) -> Tensor:
        """Return log η(i, i + m)[A] ζ(i + m, j)[A] for all m below the largest width: [X, splits].

        Entries beyond the width of a span are arbitrary.
        """
        ...

    def values(self, sentence: Tensor, start: Tensor, width: Tensor) -> Tensor:
        """Return β of spans that are all wider than a word, [X, N], or all words, [X, P]."""
        ...


def draw_nodes(nodes: Nodes, tables: Tables, sentence: Tensor, uniforms: Tensor) -> None:
    """Draw all nodes below the first of each tree; ``sentence`` [T] is the index of its sentence in the tables."""
    states = tables.all_rules.shape[-2] // 2

    def choose(step: int, start: Tensor, end: Tensor, label: Tensor, active: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        first = BEFORE_NODES + NODE_DRAWS * step
        split = start + 1
        trees = active.nonzero().squeeze(1)  # shorter trees have no node at later steps
        if trees.numel():
            width = (end - start)[trees]
            logs = tables.split_logs(sentence[trees], start[trees], width, label[trees])
            distance = torch.arange(1, logs.shape[1] + 1, device=logs.device)  # the width of the left child
            logs = logs.masked_fill_(distance >= width[:, None], -torch.inf)
            split[trees] += pick_from_logs(logs, uniforms[trees, first])
        children = (torch.zeros_like(label), torch.zeros_like(label))
        for side, (begin, stop) in enumerate(((start, split), (split, end))):
            width = stop - begin
            for wide in (True, False):
                trees = (active & ((width > 1) == wide)).nonzero().squeeze(1)
                if not trees.numel():
                    continue
                rules = tables.all_rules[..., slice(0, states) if wide else slice(states, None)]
                for some in trees.split(max(1, WEIGHTS_AT_ONCE // rules.shape[-1])):
                    row = side * states + label[some]
                    weights = rules[row] if rules.dim() == 2 else rules[sentence[some], row]
                    weights = weights * tables.values(sentence[some], begin[some], width[some])
                    children[side][some] = pick(weights, uniforms[some, first + 1 + side])
        return split, *children

    descend(nodes, choose)


class ChartTables:
    """The tables of a filled scaled chart."""

    def __init__(self, chart: ScaledChart) -> None:
        self.chart = chart
        self.all_rules = chart.all_rules
        self.beta = torch.cat([chart.beta[width] for width in range(2, chart.n + 1)], 1)  # [B, spans, N]
        spans = torch.tensor([0, 0, *(chart.n - width + 1 for width in range(2, chart.n + 1))])
        self.first = (spans.cumsum(0) - spans).to(chart.device)  # by width: the index of its first span

    def split_logs(self, sentence: Tensor, start: Tensor, width: Tensor, label: Tensor) -> Tensor:
        n = self.chart.n
        b, i, j = sentence[:, None], start[:, None], (start + width)[:, None]
        k = (i + torch.arange(1, int(width.max()), device=start.device)).clamp(max=n)
        # η(i, k) is at [i, k] of the square, and ζ(k, j) at [j, k].
        cells, exponents = self.chart.square.cells, self.chart.exponents.cells
        products = cells[b, i, k, label[:, None]].double().log2() + cells[b, j, k, label[:, None]].double().log2()
        logs = products + exponents[b, i, k].double() + exponents[b, j, k].double()
        return logs.mul_(math.log(2))

    def values(self, sentence: Tensor, start: Tensor, width: Tensor) -> Tensor:
        if int(width[0]) == 1:
            return self.chart.words[sentence, start]
        return self.beta[sentence, self.first[width] + start]


def draw_from_chart(arguments: InsideArguments, samples: int, uniforms: Tensor) -> Nodes:
    """Draw ``samples`` trees of each sentence; ``uniforms`` has one row for each tree, sentence by sentence."""
    batch, n, _, _ = arguments.sizes
    chart = ScaledChart(arguments)
    log_z = chart.fill()
    tops = arguments.root.double().log() + chart.top.double().log()  # [B, N], up to a constant
    roots = pick_from_logs(tops, uniforms[:, 1].view(batch, samples))
    roots = torch.where(log_z[:, None] > -torch.inf, roots, -1)  # a sentence without a tree
    lengths = torch.full((batch,), n, device=chart.device) if chart.lengths is None else chart.lengths
    nodes = Nodes.begin(roots.view(-1), lengths.repeat_interleave(samples), n)
    sentence = torch.arange(batch, device=chart.device).repeat_interleave(samples)
    draw_nodes(nodes, ChartTables(chart), sentence, uniforms)
    return nodes
