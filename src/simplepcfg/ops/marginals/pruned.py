"""Span marginals by an outside pass over few symbols: those whose marginals reach a threshold.

The outside pass hands marginals themselves down the tree, from parent symbols to the children of their splits. Few
symbols have one that matters: at a span of a trained grammar of 1,024 nonterminals about a dozen reach 1e-5. A
span's marginal is divided among those that do, so that only spans without any of them are lost.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from simplepcfg.ops.arguments import Sentences, SimpleRules, check_arguments
from simplepcfg.ops.backends import resolve_backend
from simplepcfg.ops.inside import BACKENDS
from simplepcfg.ops.inside.scaled_chart import ScaledChart, Square
from simplepcfg.ops.transposed_rules import stacked_rules

# Marginals of one symbol over one span, or of one parent symbol of a span, are dropped below this.
THRESHOLD = 1e-5
LEAST_NONTERMINALS = 256


def pruned_outside(
    rules: SimpleRules, sentences: Sentences, *, backend: str = "auto", threshold: float = THRESHOLD
) -> PrunedOutside | None:
    """Compute span marginals of sentences, as far as symbols whose marginals reach the threshold make them up.

    Returns None where the pass does not apply or does not pay: on a GPU, for rules with a batch dimension or fewer than
    ``LEAST_NONTERMINALS``, for other backends than "torch", and if a value may have left the floating-point range.

    Raises:
        InputError: as ``inside`` does.
    """
    backend = resolve_backend(backend, sentences.log_emissions, BACKENDS)
    with torch.inference_mode():
        arguments = check_arguments(rules, sentences)
        _, n, nonterminals, _ = arguments.sizes
        on_cpu = backend == "torch" and arguments.log_emissions.device.type == "cpu"
        if not on_cpu or n == 1 or nonterminals < LEAST_NONTERMINALS or arguments.batched_rules:
            return None
        chart = ScaledChart(arguments)
        chart.fill()
        if chart.log_space_spans:
            return None
        outside = PrunedOutside(chart, threshold)
        return outside if bool(outside.spans.isfinite().all()) else None


class PrunedOutside:
    """One outside pass over a filled chart, which is only read; all sentences have the same rules.

    ``spans`` [B, n + 1, n + 1] holds the marginals of spans of two or more words.
    """

    def __init__(self, chart: ScaledChart, threshold: float) -> None:
        self.chart, self.threshold = chart, threshold
        self.lengths = torch.full((chart.batch,), chart.n) if chart.lengths is None else chart.lengths
        self.rules = stacked_rules(chart.arguments.left, chart.arguments.right)
        # By span and side: the marginal of each parent symbol that has the span as its left (or right) child.
        self.by_parent = Square(torch.zeros_like(chart.square.cells))
        self.spans = chart.empty(chart.batch, chart.n + 1, chart.n + 1).zero_()
        for width in range(chart.n, 1, -1):
            self._visit(width)

    def symbols(self, spans: Tensor) -> Tensor:
        """Compute the marginal of each nonterminal over spans, [K, 3] of (sentence, start, end): [K, N]."""
        marginals = self.chart.empty(len(spans), self.chart.nonterminals)
        b, i, j = spans.unbind(1)
        for width in (j - i).unique().tolist():
            rows = (j - i == width).nonzero()[:, 0]
            marginals[rows] = self._marginals(width, b[rows], i[rows])
        return marginals

    def _visit(self, width: int) -> None:
        """Compute the marginals of spans of one width, and hand those of their symbols to the children."""
        chart = self.chart
        here = torch.diagonal(self.spans, width, 1, 2)
        here.copy_(self.by_parent.rows(width).sum((2, 3)))
        ends = chart.whole_sentences(width)
        if ends is not None:
            here[ends, 0] = (chart.log_top[ends] > -torch.inf).to(here.dtype)
        if width == 2:
            return  # the children are words
        b, i = (here > self.threshold).nonzero(as_tuple=True)
        marginals = self._marginals(width, b, i)
        span, symbol = (marginals > self.threshold).nonzero(as_tuple=True)
        shares = marginals[span, symbol]
        shares *= (here[b, i] / torch.zeros_like(here[b, i]).index_add_(0, span, shares))[span]
        b, i = b[span], i[span]
        square = chart.square
        first = b * square.splits_stride[0] + i * square.splits_stride[1] + square.column + symbol
        left = first[:, None] + torch.arange(width - 1) * square.column  # [nodes, splits], where η is in the square
        right = left + width * square.row
        cells, by_parent = square.cells.view(-1), self.by_parent.cells.view(-1)
        splits = cells.take(left).mul_(cells.take(right)).mul_(chart.factors[width][b, i])
        splits = splits.mul_((shares / chart.beta[width][b, i, symbol])[:, None]).flatten()
        by_parent.index_add_(0, left.flatten(), splits)
        by_parent.index_add_(0, right.flatten(), splits)

    def _marginals(self, width: int, b: Tensor, i: Tensor) -> Tensor:
        """Compute the marginals of nonterminals over spans of one width: [spans, N]."""
        chart = self.chart
        marginals = chart.beta[width][b, i]
        if width < chart.n:
            by_parent = self.by_parent.rows(width)[b, i].flatten(1)
            span, parent = (by_parent > self.threshold).nonzero(as_tuple=True)
            side = (parent >= chart.nonterminals).long()
            where = b[span], i[span], side
            stored = chart.square.rows(width)[*where, parent - side * chart.nonterminals]
            weights = by_parent[span, parent] / stored * chart.scales[width][where]
            starts = torch.searchsorted(span, torch.arange(len(b)))
            marginals *= embedding_bag(parent, self.rules, starts, mode="sum", per_sample_weights=weights)
        top = (self.lengths[b] == width).nonzero()[:, 0]
        if len(top):
            b = b[top]
            logs = chart.top[b].log() + chart.arguments.root.expand(chart.batch, -1)[b].double().log()
            marginals[top] = (logs - chart.log_top[b, None]).exp().nan_to_num_(0.0).to(chart.dtype)
        return marginals
