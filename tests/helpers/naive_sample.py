"""Sampling of one tree of one sentence, in float64: the reference of `simplepcfg.ops.sample`."""

from collections.abc import Callable

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, Sentences, SimpleRules, check_arguments
from simplepcfg.ops.inside.naive import naive_chart
from simplepcfg.ops.sample.draws import BEFORE_NODES, NODE_DRAWS, draw_uniforms
from simplepcfg.ops.trees import LabelledTree, Trees, rule_log_probabilities, scored_trees, stack_trees


def naive_sample_trees(rules: SimpleRules, sentences: Sentences, samples: int, generator: torch.Generator) -> Trees:
    """Draw what `sample_trees` draws, one tree after the other."""
    arguments = check_arguments(rules, sentences)
    batch, n, _, _ = arguments.sizes
    uniforms = draw_uniforms(batch * samples, n, generator, arguments.log_emissions.device)
    drawn = [naive_sample(arguments, row // samples, uniforms[row]) for row in range(batch * samples)]
    trees = stack_trees(drawn, n, uniforms.device)
    sentence = torch.arange(batch).repeat_interleave(samples)
    log_rules = rule_log_probabilities(arguments.rules, sentence, trees)
    scored = scored_trees(trees, log_rules, arguments.log_emissions, arguments.span_bonus, sentence)
    return scored.view(batch, samples)


@torch.no_grad()
def naive_sample(arguments: InsideArguments, b: int, uniforms: Tensor) -> LabelledTree:
    """Draw a tree of sentence ``b`` by the uniform numbers [2 + 3 (n − 1)] of one row of ``draw_uniforms``."""
    chart = naive_chart(arguments, b)
    states = len(chart.root)

    def choose(i: int, j: int, symbol: int, three: Tensor) -> tuple[int, int, int]:
        weights = torch.stack([chart.eta[i, k][symbol] * chart.zeta[k, j][symbol] for k in range(i + 1, j)])
        k = i + 1 + draw(weights, three[0])
        children = []
        for rules, (start, end), uniform in ((chart.left, (i, k), three[1]), (chart.right, (k, j), three[2])):
            columns = slice(states, None) if end - start == 1 else slice(0, states)
            children.append(draw(rules[symbol, columns] * chart.beta[start, end], uniform))
        return k, children[0], children[1]

    top = chart.root * chart.beta[0, chart.n] if chart.n > 1 else chart.root[:0]
    return sample_top_down(chart.n, top, uniforms, choose)


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
