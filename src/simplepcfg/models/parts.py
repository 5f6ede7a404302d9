"""What several neural models do with their embeddings: networks over one table, and emissions."""

from collections.abc import Sequence

from torch import Tensor

from simplepcfg.grammars import BatchEmissions, Emissions, FactoredEmissions
from simplepcfg.models.networks import ResidualNetwork
from simplepcfg.ops.neural import residual_networks

Rows = tuple[int, int]


def network_outputs(
    table: Tensor, networks: Sequence[ResidualNetwork], precision: str | None, rows: Sequence[Rows] | None = None
) -> tuple[Tensor, ...]:
    """Each network's output for its rows (start, stop) of one table of embeddings, or for all of them."""
    rows = rows if rows is not None else [(0, table.shape[0])] * len(networks)
    if precision in (None, "fp32"):
        return tuple(network(table[start:stop]) for network, (start, stop) in zip(networks, rows, strict=True))
    found = residual_networks(table, rows, [network.weights() for network in networks], precision=precision)
    return tuple(network.finished(output) for network, output in zip(networks, found, strict=True))


def emissions_of(features: Tensor, words: Tensor, precision: str | None, training: bool) -> Emissions:
    """emit[s, v] ∝ exp(features[s] · words[v]): normalised for each batch in training, else once."""
    if training:
        return BatchEmissions(features, words, precision)
    return FactoredEmissions.normalised(features, words)
