"""Log-probabilities of given trees under an ordinary PCFG."""

import math

import torch
from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.trees import rule_symbols, word_and_bonus_logs


def dense_tree_log_probabilities(
    arguments: DenseArguments, sentence: Tensor, spans: Tensor, splits: Tensor, labels: Tensor, tags: Tensor
) -> Tensor:
    """Compute log p(words, tree) of each tree: [T], summed in float64, differentiable; -inf for a missing tree.

    ``sentence`` [T] is the index in the batch of each tree's sentence. The log-weights of spans are included.
    """
    total = dense_rule_log_probabilities(arguments.root, arguments.rules, sentence, spans, splits, labels, tags)
    total = total + word_and_bonus_logs(arguments.log_emissions, arguments.span_bonus, sentence, spans, labels, tags)
    return total.to(arguments.log_emissions.dtype)


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
