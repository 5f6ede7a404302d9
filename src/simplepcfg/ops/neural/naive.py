"""The operations in plain PyTorch, as the paper writes them: for tests, and for second derivatives."""

from collections.abc import Sequence

import torch
from torch import Tensor

from simplepcfg.ops.neural.softmax import LEAST, rule_softmax
from simplepcfg.ops.products import wide_type


def naive_rule_probabilities(
    parents: Tensor, left_children: Tensor, right_children: Tensor, *, least: float = LEAST
) -> tuple[Tensor, Tensor]:
    """Compute left[A, B] ∝ exp(parents[A] · left_children[B]), and right likewise: [N, S] each."""
    parents, left, right = _wide(parents, left_children, right_children)
    return rule_softmax(parents @ left.T, least=least), rule_softmax(parents @ right.T, least=least)


def naive_sentence_rule_probabilities(
    parents: Tensor, left_children: Tensor, right_children: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute ``naive_rule_probabilities`` with a batch dimension on any argument: [B, N, S] each."""
    parents, left, right = _wide(parents, left_children, right_children)
    batch = next(tensor.shape[0] for tensor in (parents, left, right) if tensor.dim() == 3)
    logits = (parents @ children.transpose(-1, -2) for children in (left, right))
    sides = tuple(rule_softmax(each).expand(batch, *each.shape[-2:]) for each in logits)
    return sides[0], sides[1]


def naive_log_normaliser(features: Tensor, embeddings: Tensor) -> Tensor:
    """Compute log Σ_w exp(features[T] · embeddings[w]): [P]."""
    features, embeddings = _wide(features, embeddings)
    return torch.logsumexp(features @ embeddings.T, -1)


def naive_emission_log_probabilities(features: Tensor, embeddings: Tensor, rows: Tensor) -> Tensor:
    """Compute log emit[T, w] of the words with the given rows of ``embeddings``: [..., P]."""
    features, embeddings = _wide(features, embeddings)
    table = (features @ embeddings.T).log_softmax(-1)
    if features.dim() == 2:
        return table.T[rows]
    return torch.stack([own.T[words] for own, words in zip(table, rows, strict=True)])


def naive_residual_network(x: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """Compute a residual layer or a residual network, depending on the number of weights.

    With weights W, b: a residual layer, x + ReLU(W x + b). With W, b and then U, p, V, q for each block: a linear layer
    and residual blocks, y = W x + b, then y ← y + ReLU(V ReLU(U y + p) + q).
    """
    x, *weights = _wide(x, *weights)
    y = x @ weights[0].T + weights[1]
    if len(weights) == 2:
        return x + y.relu()
    for inner, inner_bias, outer, outer_bias in zip(*(iter(weights[2:]),) * 4, strict=True):
        y = y + ((y @ inner.T + inner_bias).relu() @ outer.T + outer_bias).relu()
    return y


def _wide(*tensors: Tensor) -> list[Tensor]:
    return [tensor.to(wide_type(tensor.dtype)) for tensor in tensors]
