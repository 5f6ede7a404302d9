"""Labelled binary trees as tensors, the results of Viterbi and of sampling, and their log-probabilities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simplepcfg.ops.arguments import SimpleRules

TreeTensors = tuple[Tensor, Tensor, Tensor, Tensor]  # spans, splits, labels and tags, as in Trees


@dataclass(frozen=True, slots=True)
class LabelledTree:
    """One tree: its spans of width 2 or more in preorder, their nonterminals, and a preterminal for each word."""

    spans: list[tuple[int, int]]
    labels: list[int]  # the nonterminal of each span, 0 … N − 1
    tags: list[int]  # the preterminal of each word, 0 … P − 1; empty if there is no tree
    log_probability: float  # log p(words, tree) in nats; -inf if there is no tree


@dataclass(frozen=True, slots=True)
class Trees:
    """Many trees of up to n words, with leading dimensions [B] or [B, samples].

    Nodes are in preorder. Entries are -1 beyond the nodes and words of a smaller tree, and throughout where a sentence
    has no tree. ``to_list`` returns the trees as Python objects.
    """

    spans: Tensor  # [..., n - 1, 2]
    splits: Tensor  # [..., n - 1]: where each span's right child begins
    labels: Tensor  # [..., n - 1]
    tags: Tensor  # [..., n]
    log_probability: Tensor  # [...]: log p(words, tree) in nats; -inf if there is no tree

    def to_list(self) -> list[Any]:
        """Return a ``LabelledTree`` for each tree, in lists nested like the leading dimensions."""
        shape = self.log_probability.shape
        flat = self.view(shape.numel())
        nodes, words = flat.labels >= 0, flat.tags >= 0
        # Padding is dropped before the conversion to Python objects, which is slow.
        starts, ends = flat.spans[nodes].unbind(-1)
        spans = list(zip(starts.tolist(), ends.tolist(), strict=True))
        labels, tags = flat.labels[nodes].tolist(), flat.tags[words].tolist()
        trees = []
        node = word = 0
        sizes = (nodes.sum(1), words.sum(1), flat.log_probability)
        for more_nodes, more_words, score in zip(*(column.tolist() for column in sizes), strict=True):
            there, after = slice(node, node + more_nodes), slice(word, word + more_words)
            trees.append(LabelledTree(spans[there], labels[there], tags[after], score))
            node, word = there.stop, after.stop
        return _nested(trees, shape)

    def view(self, *shape: int) -> "Trees":
        """Return the same trees with other leading dimensions."""
        lead = self.log_probability.dim()
        tensors = (self.spans, self.splits, self.labels, self.tags, self.log_probability)
        return Trees(*(tensor.reshape(*shape, *tensor.shape[lead:]) for tensor in tensors))


def _nested(items: list[Any], shape: Sequence[int]) -> list[Any]:
    """Reshape a flat list to nested lists."""
    if len(shape) < 2:
        return items
    step = math.prod(shape[1:])
    return [_nested(items[place * step : (place + 1) * step], shape[1:]) for place in range(shape[0])]


def stack_trees(trees: Sequence[LabelledTree], n: int, device: torch.device) -> TreeTensors:
    """Convert trees of up to n words to tensors with leading dimension [T]; the inverse of ``Trees.to_list``."""
    count = len(trees)
    spans, splits = np.full((count, n - 1, 2), -1), np.full((count, n - 1), -1)
    labels, tags = np.full((count, n - 1), -1), np.full((count, n), -1)
    for row, tree in enumerate(trees):
        nodes = len(tree.spans)
        tags[row, : len(tree.tags)] = tree.tags
        labels[row, :nodes] = tree.labels
        if nodes:
            spans[row, :nodes] = tree.spans
            # In preorder the left child follows its parent, unless it is a word.
            following = zip(tree.spans, [*tree.spans[1:], (-1, -1)], strict=True)
            splits[row, :nodes] = [k if i == start else i + 1 for (i, _), (start, k) in following]
    tensors = (torch.from_numpy(table).to(device) for table in (spans, splits, labels, tags))
    return next(tensors), next(tensors), next(tensors), next(tensors)


def empty_trees(count: int, like: Tensor) -> Trees:
    """Return ``count`` missing trees of sentences of one word, with the dtype and device of ``like``."""
    spans = torch.empty(count, 0, 2, dtype=torch.int64, device=like.device)
    tags = torch.full((count, 1), -1, dtype=torch.int64, device=like.device)
    return Trees(spans, spans[..., 0], spans[..., 0], tags, like.new_full((count,), -math.inf))


def scored_trees(
    trees: TreeTensors, log_rules: Tensor, log_emissions: Tensor, span_bonus: Tensor | None, sentence: Tensor
) -> Trees:
    """Add log p(words, tree) to trees, given the log-probabilities of their rules, [T] float64; differentiable.

    ``sentence`` [T] is the index in the batch of each tree's sentence. The log-weights of spans are included. The sum
    is in float64. A missing tree has -inf.
    """
    spans, _, labels, tags = trees
    position = torch.arange(tags.shape[1], device=tags.device)
    words = log_emissions[sentence[:, None], position, tags.clamp(min=0)].double()
    total = torch.where(tags >= 0, words, 0.0).sum(1)
    if span_bonus is not None:
        start, end = spans.clamp(min=0).unbind(-1)
        bonus = span_bonus[sentence[:, None], start, end].double()
        total = total + torch.where(labels >= 0, bonus, 0.0).sum(1)
    return Trees(*trees, (log_rules + total).to(torch.promote_types(log_emissions.dtype, torch.float32)))


def rule_log_probabilities(rules: SimpleRules, sentence: Tensor, trees: TreeTensors) -> Tensor:
    """Compute the log-probability of the rules of each tree, without emissions and span bonuses: [T] float64."""
    labels = trees[2]
    parent, *children = rule_symbols(rules.root.shape[-1], *trees)
    total = torch.where(labels[:, 0] >= 0, _of(rules.root, sentence, 1, parent[:, 0]).double().log(), -torch.inf)
    where = sentence[:, None].expand_as(parent)
    for side, child in zip((rules.left, rules.right), children, strict=True):
        scores = _of(side, where, 2, parent, child).double().log()
        total = total + torch.where(labels >= 0, scores, 0.0).sum(1)
    return total


def rule_symbols(
    states: int, spans: Tensor, splits: Tensor, labels: Tensor, tags: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return parent, left and right child of every node: [T, n - 1] each; arbitrary symbols for missing nodes.

    Preterminals are numbered from ``states``, after the nonterminals.
    """
    trees, nodes = labels.shape
    parent, (start, end), middle = labels.clamp(min=0), spans.clamp(min=0).unbind(-1), splits.clamp(min=0)
    node = torch.arange(nodes, device=labels.device)
    children = []
    # In preorder the left child follows its parent, and the right child follows all nodes of the left subtree.
    for begin, stop, place in ((start, middle, node + 1), (middle, end, node + middle - start)):
        inner = parent.gather(1, place.expand(trees, -1).clamp(0, nodes - 1))
        word = states + tags.clamp(min=0).gather(1, begin.clamp(max=nodes))
        children.append(torch.where(stop - begin == 1, word, inner))
    return parent, children[0], children[1]


def _of(table: Tensor, sentence: Tensor, dims: int, *index: Tensor) -> Tensor:
    """Index a table of ``dims`` dimensions, which may have a batch dimension in front of them."""
    return table[(sentence, *index)] if table.dim() > dims else table[index]
