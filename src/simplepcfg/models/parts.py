"""What several neural models do with their embeddings: networks over one table, and emissions."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplepcfg.grammars import BatchEmissions, Emissions, FactoredEmissions
from simplepcfg.models.networks import FeatureNetwork
from simplepcfg.ops.neural import residual_networks

Rows = tuple[int, int]
ALIGNMENT = 8  # numbers


def network_outputs(
    table: Tensor, networks: Sequence[FeatureNetwork], precision: str | None, rows: Sequence[Rows] | None = None
) -> tuple[Tensor, ...]:
    """Each network's output for its rows (start, stop) of one table of embeddings, or for all of them."""
    rows = rows if rows is not None else [(0, table.shape[0])] * len(networks)
    if precision in (None, "fp32"):
        return tuple(network(table[start:stop]) for network, (start, stop) in zip(networks, rows, strict=True))
    found = residual_networks(table, rows, [network.weights() for network in networks], precision=precision)
    inputs = (table[start:stop] for start, stop in rows)
    return tuple(network.finish(y, x) for network, y, x in zip(networks, found, inputs, strict=True))


def small_network(network: nn.Module, rows: Tensor, precision: str | None) -> Tensor:
    """The output of a network that has no form of ``ops.neural.residual_networks``, for rows of embeddings."""
    with narrow_products(precision, rows.device):
        return network(rows)


def narrow_products(precision: str | None, device: torch.device) -> AbstractContextManager[object]:
    """In bf16 on a GPU, products of bfloat16 operands; elsewhere nothing."""
    if precision == "bf16" and device.type == "cuda":
        # Without the cache of narrow weights, which would outlive a step that is captured as a CUDA graph.
        return torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False)
    return nullcontext()


def emissions_of(
    features: Tensor, words: Tensor, precision: str | None, training: bool, bias: Tensor | None = None
) -> Emissions:
    """emit[s, v] ∝ exp(features[s] · words[v] + bias[v]): normalised for each batch in training, else once."""
    if bias is not None:
        # The bias is one more column, which meets a feature of 1; columns of zeros keep rows aligned for tensor cores.
        features = F.pad(F.pad(features, (0, 1), value=1.0), (0, ALIGNMENT - 1))
        words = F.pad(torch.cat((words, bias[:, None]), 1), (0, ALIGNMENT - 1))
    if training:
        return BatchEmissions(features, words, precision)
    return FactoredEmissions.normalised(features, words)


def word_bias(vocabulary_size: int, size: int) -> nn.Parameter:
    """A bias for each word, drawn as PyTorch draws those of a linear layer that reads so many numbers."""
    return nn.Parameter(torch.empty(vocabulary_size - 1).uniform_(-(size**-0.5), size**-0.5))
