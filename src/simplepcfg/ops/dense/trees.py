"""Log-probabilities of given trees under an ordinary PCFG."""

import math

import torch
from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments


def dense_tree_log_probabilities(
    arguments: DenseArguments, sentence: Tensor, spans: Tensor, splits: Tensor, labels: Tensor, tags: Tensor
) -> Tensor:
    """Compute log p(words, tree) of each tree: [T], summed in float64, differentiable; -inf for a missing tree.

    ``sentence`` [T] is the index in the batch of each tree's sentence. The log-weights of spans are included.
    """
    total = dense_rule_log_probabilities(arguments.root, arguments.rules, sentence, spans, splits, labels, tags)
    total = total + word_and_bonus_logs(arguments.log_emissions, arguments.span_bonus, sentence, spans, labels, tags)
    return total.to(arguments.log_emissions.dtype)


def word_and_bonus_logs(
    log_emissions: Tensor, span_bonus: Tensor | None, sentence: Tensor, spans: Tensor, labels: Tensor, tags: Tensor
) -> Tensor:
    """Compute the sum of the log-emissions and span bonuses of each tree: [T] float64."""
    position = torch.arange(tags.shape[1], device=tags.device)
    words = log_emissions[sentence[:, None], position, tags.clamp(min=0)].double()
    total = torch.where(tags >= 0, words, 0.0).sum(1)
    if span_bonus is None:
        return total
    start, end = spans.clamp(min=0).unbind(-1)
    bonus = span_bonus[sentence[:, None], start, end].double()
    return total + torch.where(labels >= 0, bonus, 0.0).sum(1)


def dense_rule_log_probabilities(
    root: Tensor, rules: Tensor, sentence: Tensor, spans: Tensor, splits: Tensor, labels: Tensor, tags: Tensor
) -> Tensor:
    """Compute the log-probability of the rules of each tree, without emissions and bonuses: [T] float64."""
    here = labels >= 0
    parent, left, right = rule_symbols(root.shape[-1], spans, splits, labels, tags)
    first = root[sentence, parent[:, 0]] if root.dim() == 2 else root[parent[:, 0]]
    total = torch.where(here[:, 0], first.double(), 1.0).log().masked_fill(~here[:, 0], -math.inf)
    index = (parent, left, right)
    scores = rules[(sentence[:, None], *index) if rules.dim() == 4 else index].double()
    return total + torch.where(here, scores, 1.0).log().sum(1)


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
