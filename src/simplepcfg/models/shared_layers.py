"""Operations that several models share: networks over one table of embeddings, and emissions."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplepcfg.grammars import BatchEmissions, Emissions, FactoredEmissions
from simplepcfg.models.networks import FeatureNetwork
from simplepcfg.ops.neural import residual_networks, rule_softmax
from simplepcfg.ops.shards import Shards

Rows = tuple[int, int]
ALIGNMENT = 8  # numbers


def apply_networks(
    table: Tensor, networks: Sequence[FeatureNetwork], precision: str | None, rows: Sequence[Rows] | None = None
) -> tuple[Tensor, ...]:
    """Return the output of each network for its rows (start, stop) of one table of embeddings, or for all rows."""
    rows = rows if rows is not None else [(0, table.shape[0])] * len(networks)
    if precision in (None, "fp32"):
        return tuple(network(table[start:stop]) for network, (start, stop) in zip(networks, rows, strict=True))
    outputs = residual_networks(table, rows, [network.weights() for network in networks], precision=precision)
    inputs = (table[start:stop] for start, stop in rows)
    return tuple(network.finish(y, x) for network, y, x in zip(networks, outputs, inputs, strict=True))


def apply_network(network: nn.Module, rows: Tensor, precision: str | None) -> Tensor:
    """Return the output, for rows of embeddings, of a network that ``ops.neural.residual_networks`` cannot compute."""
    with bf16_autocast(precision, rows.device):
        return network(rows)


def bf16_autocast(precision: str | None, device: torch.device) -> AbstractContextManager[object]:
    """Return an autocast context for bfloat16 products if the precision is bf16 on a GPU, else an empty context."""
    if precision == "bf16" and device.type == "cuda":
        # The cache of bfloat16 weights is off, since it would outlive a step that is captured as a CUDA graph.
        return torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False)
    return nullcontext()


def root_probabilities(logits: Tensor, shards: Shards | None) -> Tensor:
    """Return the probabilities of S → A from logits [N]; with shards, both are those of this process's nonterminals."""
    if shards is None:
        return rule_softmax(logits)
    every = rule_softmax(shards.gather(logits))
    return shards.own(every, [len(every)])


def make_emissions(
    features: Tensor,
    words: Tensor,
    precision: str | None,
    training: bool,
    bias: Tensor | None = None,
    log_normaliser: Tensor | None = None,
) -> Emissions:
    """Return emissions emit[s, v] ∝ exp(features[s] · words[v] + bias[v]).

    In training they are normalised for the words of each batch, else once. `features` is [P, D] or [B, P, D], `words`
    [V − 1, D] and `bias` [V − 1]; `log_normaliser` is that of the result where it is known, [P].
    """
    if bias is not None:
        features, words = with_bias_column(features, words, bias)
    if training:
        return BatchEmissions(features, words, precision)
    if log_normaliser is not None:
        return FactoredEmissions(features, words, log_normaliser.to(features))
    return FactoredEmissions.normalised(features, words)


def with_bias_column(features: Tensor, rows: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return features [..., D] and rows [V, D] with more columns, by which their products have the bias [V] of the row.

    Beside the column of the bias, columns of zeros keep rows aligned for tensor cores.
    """
    features = F.pad(F.pad(features, (0, 1), value=1.0), (0, ALIGNMENT - 1))
    return features, F.pad(torch.cat((rows, bias[:, None]), 1), (0, ALIGNMENT - 1))


def make_word_bias(vocabulary_size: int, size: int) -> nn.Parameter:
    """Return a bias for each word, drawn as those of a PyTorch linear layer with `size` inputs."""
    return nn.Parameter(torch.empty(vocabulary_size - 1).uniform_(-(size**-0.5), size**-0.5))
