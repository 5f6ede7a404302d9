"""Full enumeration in float64: every binary tree, and for tiny grammars every derivation, one by one."""

import itertools
import math
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

Span = tuple[int, int]


def binary_trees(i: int, j: int) -> Iterator[tuple[tuple[Span, int], ...]]:
    """Every binary tree over words i … j − 1, as ((span, split), …) for spans of width 2 or more, in preorder."""
    if j - i == 1:
        yield ()
        return
    for k in range(i + 1, j):
        for before, after in itertools.product(binary_trees(i, k), binary_trees(k, j)):
            yield (((i, j), k), *before, *after)


def tree_log_weights(
    log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor, span_bonus: Tensor | None = None
) -> list[tuple[tuple[tuple[Span, int], ...], Tensor]]:
    """(tree, log-probability summed over its symbols) for every tree of one sentence, differentiable.

    All in log space, so that no grammar is too peaked for it.
    """
    weights = _weights_of_trees(log_emissions, root, left, right, span_bonus)
    return list(zip(binary_trees(0, log_emissions.shape[0]), weights, strict=True))


def log_partition(*args: Tensor | None) -> Tensor:
    """log Z of one sentence by summing over trees."""
    return exact_log_sum(_weights_of_trees(*args))  # type: ignore[arg-type]


def _weights_of_trees(
    log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor, span_bonus: Tensor | None = None
) -> Tensor:
    """[trees], in the order of `binary_trees`: a row for every tree over a span, and no sum over them."""
    nonterminals = root.shape[0]
    log_left, log_right = exact_log(left), exact_log(right)

    @cache
    def of_span(i: int, j: int) -> Tensor:  # [trees, symbols]
        if j - i == 1:
            return log_emissions[i][None]
        pairs = [as_child(log_left, i, k)[:, None] + as_child(log_right, k, j) for k in range(i + 1, j)]
        total = torch.cat([weights.flatten(0, 1) for weights in pairs])
        return total if span_bonus is None else total + span_bonus[i, j]

    @cache
    def as_child(log_rules: Tensor, i: int, j: int) -> Tensor:  # [trees, N]
        columns = log_rules[:, nonterminals:] if j - i == 1 else log_rules[:, :nonterminals]
        return exact_log_sum(columns + of_span(i, j)[:, None])

    return exact_log_sum(exact_log(root) + of_span(0, log_emissions.shape[0]))


def derivation_sum(log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor) -> float:
    """Z of one sentence by summing over every assignment of symbols to every tree: for tiny grammars only."""
    n, preterminals = log_emissions.shape
    nonterminals = root.shape[0]
    at_root, to_left, to_right, emit = (t.detach().tolist() for t in (root, left, right, log_emissions.exp()))
    total = 0.0
    for tree in binary_trees(0, n):
        spans = [span for span, _ in tree]
        for symbols in itertools.product(range(nonterminals), repeat=len(spans)):
            for tags in itertools.product(range(preterminals), repeat=n):
                label = dict(zip(spans, symbols, strict=True))
                label |= {(i, i + 1): nonterminals + tag for i, tag in enumerate(tags)}
                weight = at_root[label[0, n]]
                for (i, j), k in tree:
                    weight *= to_left[label[i, j]][label[i, k]] * to_right[label[i, j]][label[k, j]]
                for i, tag in enumerate(tags):
                    weight *= emit[i][tag]
                total += weight
    return total


def exact_log(x: Tensor) -> Tensor:
    """log with log 0 = -inf and a gradient of 0 there."""
    zero = x == 0
    return torch.where(zero, torch.ones_like(x), x).log().masked_fill(zero, -math.inf)


def exact_log_sum(x: Tensor) -> Tensor:
    """log Σ exp over the last dimension; -inf where all of it is."""
    scale = x.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
    return exact_log((x - scale).exp().sum(-1)) + scale.squeeze(-1)
