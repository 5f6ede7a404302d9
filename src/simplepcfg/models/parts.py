"""What several neural models do with their embeddings: networks over one table, and emissions."""

from collections.abc import Sequence

from torch import Tensor

from simplepcfg.grammars import BatchEmissions, Emissions, FactoredEmissions
from simplepcfg.models.networks import ResidualNetwork
from simplepcfg.ops.neural import residual_networks


def network_outputs(table: Tensor, networks: Sequence[ResidualNetwork], precision: str | None) -> tuple[Tensor, ...]:
    """Every network's output for every row of one table of embeddings."""
    if precision in (None, "fp32"):
        return tuple(network(table) for network in networks)
    rows = [(0, table.shape[0])] * len(networks)
    return residual_networks(table, rows, [network.weights() for network in networks], precision=precision)


def emissions_of(features: Tensor, words: Tensor, precision: str | None, training: bool) -> Emissions:
    """emit[s, v] ∝ exp(features[s] · words[v]): normalised for each batch in training, else once."""
    if training:
        return BatchEmissions(features, words, precision)
    return FactoredEmissions.normalised(features, words)
