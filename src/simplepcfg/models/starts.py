"""How weights begin: embeddings drawn so that scores, and with them symbols, differ from the first step."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from simplepcfg.models.networks import FeatureNorm, ResidualNetwork


@torch.no_grad()
def spread_scores(
    model: nn.Module,
    deviation: float,
    *,
    read: Sequence[Tensor],
    scored: Sequence[Tensor],
    words: tuple[float, ResidualNetwork, Tensor] | None = None,
) -> None:
    """Let every score f(w) · u begin with about this standard deviation.

    Tables in `read` are seen through networks alone. Where those normalise what they give, gains say how large features
    are, and the size of such a table only how fast it turns. Tables in `scored` are one side of a score themselves.
    `words` have a deviation of their own, with the network and the table that their scores come from.
    """
    normalised = any(isinstance(module, FeatureNorm) for module in model.modules())
    for table in read:
        _draw(table, 1.0 if normalised else deviation)
    for table in scored:
        _draw(table, words[0] if words and table is words[2] else deviation)
    for module in model.modules():
        if isinstance(module, FeatureNorm):
            module.gains.mul_((words[0] if words and module is words[1][-1] else deviation) ** 0.5)


def _draw(table: Tensor, deviation: float) -> None:
    """Products of two such rows have this deviation."""
    nn.init.normal_(table, std=deviation**0.5 * table.shape[1] ** -0.25)
