"""Full enumeration in float64: every binary tree, and for tiny grammars every derivation, one by one."""

import itertools
import math
from collections.abc import Iterator

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
    n = log_emissions.shape[0]
    nonterminals = root.shape[0]
    log_left, log_right = exact_log(left), exact_log(right)
    found = []
    for tree in binary_trees(0, n):
        splits = dict(tree)

        def node(span: Span, splits: dict[Span, int] = splits, tree: tuple[tuple[Span, int], ...] = tree) -> Tensor:
            i, j = span
            if j - i == 1:
                return log_emissions[i]
            k = splits[span]
            total = exact_log_sum(columns(log_left, i, k) + node((i, k), splits, tree)) + exact_log_sum(
                columns(log_right, k, j) + node((k, j), splits, tree)
            )
            return total if span_bonus is None else total + span_bonus[i, j]

        def columns(rules: Tensor, i: int, j: int) -> Tensor:
            return rules[:, nonterminals:] if j - i == 1 else rules[:, :nonterminals]

        found.append((tree, exact_log_sum(exact_log(root) + node((0, n)))))
    return found


def log_partition(*args: Tensor | None) -> Tensor:
    """log Z of one sentence by summing over trees."""
    weights = [weight for _, weight in tree_log_weights(*args)]  # type: ignore[arg-type]
    return exact_log_sum(torch.stack(weights)) if weights else torch.tensor(-math.inf, dtype=torch.float64)


def derivation_sum(log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor) -> float:
    """Z of one sentence by summing over every assignment of symbols to every tree: for tiny grammars only."""
    log_emissions, root, left, right = (t.detach() for t in (log_emissions, root, left, right))
    n, preterminals = log_emissions.shape
    nonterminals = root.shape[0]
    emit = log_emissions.exp()
    total = 0.0
    for tree in binary_trees(0, n):
        spans = [span for span, _ in tree]
        for symbols in itertools.product(range(nonterminals), repeat=len(spans)):
            for tags in itertools.product(range(preterminals), repeat=n):
                label = dict(zip(spans, symbols, strict=True))
                label |= {(i, i + 1): nonterminals + tag for i, tag in enumerate(tags)}
                weight = float(root[label[0, n]])
                for (i, j), k in tree:
                    weight *= float(left[label[i, j], label[i, k]] * right[label[i, j], label[k, j]])
                for i, tag in enumerate(tags):
                    weight *= float(emit[i, tag])
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
