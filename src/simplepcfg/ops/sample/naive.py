"""Sampling of one tree of one sentence, in float64: the reference for tests."""

from collections.abc import Callable

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, float64_of_sentence
from simplepcfg.ops.sample.draws import BEFORE_NODES, NODE_DRAWS
from simplepcfg.ops.trees import LabelledTree


def naive_sample(arguments: InsideArguments, b: int, uniforms: Tensor) -> LabelledTree:
    """Draw a tree of sentence ``b`` by the uniform numbers [2 + 3 (n − 1)] of one row of ``draw_uniforms``."""
    _, n, nonterminals, _ = arguments.sizes
    if arguments.lengths is not None:
        n = int(arguments.lengths[b])
    root, *rules = (
        float64_of_sentence(rules.detach(), b, dims)
        for rules, dims in ((arguments.root, 1), (arguments.left, 2), (arguments.right, 2))
    )
    log_emissions = arguments.log_emissions[b, :n].detach().double()
    scale = log_emissions.amax(1, keepdim=True)
    emit = (log_emissions - torch.where(scale.isfinite(), scale, 0.0)).exp()
    beta: dict[tuple[int, int], Tensor] = {(i, i + 1): emit[i] for i in range(n)}
    below: dict[tuple[int, int, int], Tensor] = {}  # (side, i, j): η, ζ
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            j = i + width
            if width > 1:
                beta[i, j] = torch.stack([below[0, i, k] * below[1, k, j] for k in range(i + 1, j)]).sum(0)
                if arguments.span_bonus is not None:
                    beta[i, j] = beta[i, j] * arguments.span_bonus[b, i, j].detach().double().exp()
            columns = slice(nonterminals, None) if width == 1 else slice(0, nonterminals)
            for side in range(2):
                below[side, i, j] = rules[side][:, columns] @ beta[i, j]

    def choose(i: int, j: int, symbol: int, three: Tensor) -> tuple[int, int, int]:
        weights = torch.stack([below[0, i, k][symbol] * below[1, k, j][symbol] for k in range(i + 1, j)])
        k = i + 1 + draw(weights, three[0])
        children = []
        for side, (start, end) in enumerate(((i, k), (k, j))):
            columns = slice(nonterminals, None) if end - start == 1 else slice(0, nonterminals)
            children.append(draw(rules[side][symbol, columns] * beta[start, end], three[1 + side]))
        return k, children[0], children[1]

    return sample_top_down(n, root * beta[0, n] if n > 1 else root[:0], uniforms, choose)


def sample_top_down(
    n: int, top: Tensor, uniforms: Tensor, choose: Callable[[int, int, int, Tensor], tuple[int, int, int]]
) -> LabelledTree:
    """Draw a tree from the top down: its root from the weights ``top``, and other nodes by ``choose``.

    ``choose(i, j, symbol, uniforms)`` returns the split of a node and the symbols of both children, given three uniform
    numbers. If all weights are 0, there is no tree.
    """
    if not bool(top.any()):
        return LabelledTree([], [], [], -torch.inf)
    spans: list[tuple[int, int]] = []
    labels: list[int] = []
    tags = [-1] * n
    waiting = [(0, n, draw(top, uniforms[1]))]
    while waiting:
        i, j, symbol = waiting.pop()
        if j - i == 1:
            tags[i] = symbol
            continue
        first = BEFORE_NODES + NODE_DRAWS * len(spans)
        spans.append((i, j))
        labels.append(symbol)
        k, left, right = choose(i, j, symbol, uniforms[first : first + NODE_DRAWS])
        waiting += [(k, j, right), (i, k, left)]  # the left child is expanded first
    return LabelledTree(spans, labels, tags, 0.0)


def draw(weights: Tensor, uniform: Tensor) -> int:
    """Draw an index with probability proportional to its weight."""
    sums = weights.cumsum(0)
    return int((sums <= uniform.to(sums) * sums[-1]).sum())
