"""Posteriors of symbols given unlabelled trees: the inside and outside passes over the spans of one tree each.

With the tree fixed, a span has one split, so that a sentence of n words takes n − 1 products with each of the rules
instead of one for each of its n² / 2 spans. Nodes of equal height, of all sentences, are computed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.arguments import SimpleRules

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The nodes of binary trees, in the order of the trees' spans; a child below 0 is the word −1 − child."""

    left: list[int]
    right: list[int]
    height: list[int]
    top: list[int]  # the nodes over whole sentences


def symbols_given_trees(
    rules: SimpleRules, log_emissions: Tensor, trees: Sequence[Sequence[Span]]
) -> tuple[list[Tensor], list[Tensor]]:
    """Compute P(symbol | sentence, tree) for the nodes and words of binary trees.

    Args:
        rules: without a batch dimension.
        log_emissions: ``[B, n, P]``.
        trees: for each sentence, the spans of two words or more of a binary tree, in preorder, as ``decode`` gives.

    Returns:
        For each sentence ``[spans, N]`` and ``[words, P]``; zeros where the tree has probability 0. A sentence without
        spans has no words here, either.
    """
    with torch.no_grad():
        nodes, words = _flattened(trees)
        if not nodes.height:
            return _split(log_emissions.new_zeros(0, len(rules.root)), log_emissions[0, :0], trees)
        b, i = torch.tensor(words, device=log_emissions.device).unbind(1)
        return _split(*_passes(rules, log_emissions[b, i], nodes), trees)


def _passes(rules: SimpleRules, log_emissions: Tensor, nodes: _Nodes) -> tuple[Tensor, Tensor]:
    """Compute the posteriors of all nodes [nodes, N] and of all words [words, P]."""
    device, states = log_emissions.device, rules.root.shape[-1]
    left, right, height = (torch.tensor(part, device=device) for part in (nodes.left, nodes.right, nodes.height))
    emissions = _exponentials(log_emissions)
    matrices = [side.to(emissions.dtype) for side in (rules.left, rules.right)]
    of_words = [(emissions @ matrix[:, states:].T).log() for matrix in matrices]
    of_nodes = [log_emissions.new_full((len(height), states), -torch.inf) for _ in matrices]
    # By child and side: log of the probability of the words below it, for each parent symbol, up to a constant.
    log_up = [torch.cat([inner, outer.flip(0)]) for inner, outer in zip(of_nodes, of_words, strict=True)]
    # Words are counted from the end, so that a child below 0 indexes its row.
    log_beta = log_emissions.new_empty(len(height), states)
    levels = [(height == level).nonzero()[:, 0] for level in range(1, int(height.max()) + 1)]
    for rows in levels:
        below = log_up[0][left[rows]] + log_up[1][right[rows]]
        log_beta[rows] = below
        beta = _exponentials(below)
        for up, matrix in zip(log_up, matrices, strict=True):
            up[rows] = (beta @ matrix[:, :states].T).log()
    posteriors = log_emissions.new_zeros(len(height), states)
    tags = torch.zeros_like(log_emissions)
    log_alpha = log_emissions.new_full((len(height), states), -torch.inf)
    log_alpha[nodes.top] = rules.root.to(emissions.dtype).log()
    for rows in reversed(levels):
        posteriors[rows] = _normalised(_exponentials(log_alpha[rows] + log_beta[rows]))
        for child, other, side in ((left, right, 0), (right, left, 1)):
            down = _exponentials(log_alpha[rows] + log_up[1 - side][other[rows]])
            inner, outer = child[rows] >= 0, child[rows] < 0
            if inner.any():
                log_alpha[child[rows][inner]] = (down[inner] @ matrices[side][:, :states]).log()
            if outer.any():
                places = -1 - child[rows][outer]
                tags[places] = _normalised((down[outer] @ matrices[side][:, states:]) * emissions[places])
    return posteriors, tags


def _exponentials(logs: Tensor) -> Tensor:
    """Return exp(logs − their largest), zeros where all are −inf."""
    return (logs - logs.amax(1, keepdim=True)).exp().nan_to_num_(0.0)


def _normalised(weights: Tensor) -> Tensor:
    return (weights / weights.sum(1, keepdim=True)).nan_to_num_(0.0)


def _flattened(trees: Sequence[Sequence[Span]]) -> tuple[_Nodes, list[tuple[int, int]]]:
    """Return the nodes of all trees, and the (sentence, place) of all words."""
    nodes = _Nodes([], [], [], [])
    words: list[tuple[int, int]] = []
    for sentence, spans in enumerate(trees):
        if not spans:
            continue
        first, first_word = len(nodes.left), len(words)
        words += [(sentence, place) for place in range(spans[0][1])]
        numbers = {span: first + number for number, span in enumerate(spans)}
        nodes.top.append(first)
        for number, (start, end) in enumerate(spans):
            # In preorder the next span is the left child, if it begins with the same word.
            following = spans[number + 1] if number + 1 < len(spans) else (end, end)
            middle = following[1] if following[0] == start else start + 1
            nodes.left.append(numbers.get((start, middle), -1 - first_word - start))
            nodes.right.append(numbers.get((middle, end), -first_word - end))
            nodes.height.append(0)
        for number in reversed(range(first, len(nodes.left))):
            children = (nodes.left[number], nodes.right[number])
            nodes.height[number] = 1 + max(nodes.height[child] if child >= 0 else 0 for child in children)
    return nodes, words


def _split(nodes: Tensor, words: Tensor, trees: Sequence[Sequence[Span]]) -> tuple[list[Tensor], list[Tensor]]:
    lengths = [spans[0][1] if spans else 0 for spans in trees]
    return list(nodes.split([len(spans) for spans in trees])), list(words.split(lengths))
