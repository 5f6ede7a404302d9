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
from simplepcfg.ops.transposed_rules import transposed_rules

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
    device, states, count = log_emissions.device, rules.root.shape[-1], len(nodes.height)
    children = torch.tensor([nodes.left, nodes.right], device=device)  # [2, nodes]
    height = torch.tensor(nodes.height, device=device)
    emissions = _exponentials(log_emissions)
    downward = [side.to(emissions.dtype) for side in (rules.left, rules.right)]
    if device.type == "cpu":  # where few rows are multiplied fastest with matrices as they lie in memory
        upward = transposed_rules(*downward).split(states, 1)  # each [N + P, N]
    else:
        upward = tuple(side.T for side in downward)
    # By child: log of the probability of the words below it, for each symbol of its parent, up to a constant. Words are
    # counted from the end, so that a child below 0 indexes its row.
    log_up = log_emissions.new_full((count + len(emissions), states), -torch.inf)
    is_right = torch.zeros(len(log_up), dtype=torch.bool, device=device)
    is_right[children[1]] = True
    log_beta = log_emissions.new_empty(count, states)

    def go_up(rows: Tensor, values: Tensor, of_words: bool) -> None:
        part = slice(states, None) if of_words else slice(states)
        for side, matrix in enumerate(upward):
            own = is_right[rows] == bool(side)
            if own.any():
                log_up[rows[own]] = (values[own] @ matrix[part]).log()

    go_up(torch.arange(len(log_up) - 1, count - 1, -1, device=device), emissions, True)
    levels = [(height == level).nonzero()[:, 0] for level in range(1, int(height.max()) + 1)]
    for rows in levels:
        log_beta[rows] = log_up[children[0, rows]] + log_up[children[1, rows]]
        go_up(rows, _exponentials(log_beta[rows]), False)
    posteriors = log_emissions.new_zeros(count, states)
    tags = torch.zeros_like(log_emissions)
    log_alpha = log_emissions.new_full((count, states), -torch.inf)
    log_alpha[nodes.top] = rules.root.to(emissions.dtype).log()
    for rows in reversed(levels):
        posteriors[rows] = _normalised(_exponentials(log_alpha[rows] + log_beta[rows]))
        for side, matrix in enumerate(downward):
            child = children[side, rows]
            down = _exponentials(log_alpha[rows] + log_up[children[1 - side, rows]])
            inner, outer = child >= 0, child < 0
            if inner.any():
                log_alpha[child[inner]] = (down[inner] @ matrix[:, :states]).log()
            if outer.any():
                places = -1 - child[outer]
                tags[places] = _normalised((down[outer] @ matrix[:, states:]) * emissions[places])
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
