"""Span marginals over the nodes that are probable from left to right, on a CPU; README.md has the recursion.

The outside pass hands marginals themselves down the tree, from the nodes of a span to the children of its splits, with
calls of NumPy for each span: few spans and few of their symbols have a marginal that matters.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from simplepcfg.ops.arguments import Sentences, SimpleRules, check_arguments
from simplepcfg.ops.prefix import Closure
from simplepcfg.ops.prefix.pruned import MOST_LOST, SENTENCE_THRESHOLD, Array, Chart, fill_charts, first_row
from simplepcfg.ops.transposed_rules import transposed_rules

# Marginals of spans, of symbols over a span and of their parents are not handed down below this.
MARGINAL_THRESHOLD = 1e-4


def pruned_span_marginals(
    rules: SimpleRules,
    sentences: Sentences,
    closure: Closure,
    *,
    threshold: float = SENTENCE_THRESHOLD,
    marginal_threshold: float = MARGINAL_THRESHOLD,
) -> Tensor | None:
    """Compute span marginals of sentences, [B, n + 1, n + 1], as far as nodes above thresholds go.

    The rules are on a CPU and have no batch dimension. Returns None if a value left the floating-point range or a
    sentence lost most of its nodes, as under a grammar that has learned little, or all of its trees.

    Raises:
        InputError: as ``inside`` does.
    """
    with torch.inference_mode():
        arguments = check_arguments(rules, sentences)
        batch, n, _, _ = arguments.sizes
        lengths = torch.full((batch,), n) if arguments.lengths is None else arguments.lengths
        filled = fill_charts(arguments, closure, lengths, threshold, ends=True, nodes=True)
        transposed = transposed_rules(arguments.left, arguments.right).numpy()  # [N + P, 2N]
        spans = np.zeros((batch, n + 1, n + 1), transposed.dtype)
        for chart, sentence in zip(filled.charts, filled.order.tolist(), strict=True):
            length = int(lengths[sentence])
            weights = chart.top * arguments.root.numpy()
            if not chart.lost < MOST_LOST or (length > 1 and not 0 < weights.sum() < np.inf):
                return None
            _outside(chart, length, weights, transposed, marginal_threshold, spans[sentence])
        marginals = torch.from_numpy(spans)
        return marginals if bool(marginals.isfinite().all()) else None


@np.errstate(all="ignore")
def _outside(chart: Chart, n: int, weights: Array, rules: Array, threshold: float, spans: Array) -> None:
    """Write the span marginals of a sentence of n words, given root ⊙ β(0, n)."""
    eta, zeta = chart.eta, chart.zeta
    assert zeta is not None
    by_left, by_right = np.zeros_like(eta), np.zeros_like(zeta)  # by row: marginals of the parents
    starts = np.array([first_row(end) for end in range(n + 1)])
    for width in range(n, 1, -1):
        for i in range(n - width + 1):
            j = i + width
            row = first_row(j) + i
            if width == n:
                (symbols,) = (weights > threshold * weights.sum()).nonzero()
                marginal, shares = 1.0, weights[symbols]
            elif row in chart.nodes:
                marginal = float(by_left[row].sum() + by_right[row].sum())
                if marginal < threshold or width == 2:
                    spans[i, j] = marginal
                    continue
                symbols, beta = chart.nodes[row]
                by_parent, children = (np.concatenate([a[row], b[row]]) for a, b in ((by_left, by_right), (eta, zeta)))
                (parents,) = (by_parent > threshold).nonzero()
                shares = beta * (rules[symbols[:, None], parents] @ (by_parent[parents] / children[parents]))
                chosen = shares > threshold
                symbols, shares = symbols[chosen], shares[chosen]
            else:
                continue
            spans[i, j] = marginal
            if not len(symbols):
                continue
            lefts, rights = (starts[i + 1 : j] + i)[:, None], np.arange(row + 1, first_row(j) + j)[:, None]
            splits = eta[lefts, symbols] * zeta[rights, symbols]  # [splits, symbols]
            splits *= shares * (marginal / shares.sum()) / splits.sum(0)
            by_left[lefts, symbols] += splits
            by_right[rights, symbols] += splits
