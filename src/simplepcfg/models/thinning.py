"""What a training step leaves out of a model, so that the model does not lean on it: symbols, and single features."""

from dataclasses import dataclass
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(slots=True)
class Thinning:
    """Set on a model by whoever trains it; evaluation always sees everything."""

    counts: tuple[int, ...]  # how many symbols of each group take part
    kept: Tensor | None = None  # their rows in the table of symbols, group by group; None keeps all
    features: float = 0.0  # share of the numbers of embeddings that are set to 0

    def rows(self, table: Tensor) -> Tensor:
        """The rows of those who take part, of any table with a row a symbol."""
        return table if self.kept is None else table.index_select(0, self.kept)

    def thin(self, embeddings: Tensor) -> Tensor:
        """With some features set to 0 and the others made larger in turn."""
        return F.dropout(embeddings, self.features) if self.features else embeddings


class Thinnable(Protocol):
    """A model that can do without some of its symbols for a step."""

    training: bool
    thinning: Thinning | None
    symbols: nn.Parameter
    word_embeddings: nn.Parameter

    @property
    def symbol_groups(self) -> tuple[int, ...]:
        """How many symbols of each kind there are, in the order of the table."""
        ...


def step_tables(model: Thinnable) -> tuple[Tensor, tuple[int, ...], Tensor]:
    """Embeddings of symbols, how many of each group there are, and embeddings of words, as a step sees them."""
    thinning = model.thinning if model.training else None
    if thinning is None:
        return model.symbols, model.symbol_groups, model.word_embeddings
    return thinning.thin(thinning.rows(model.symbols)), thinning.counts, thinning.thin(model.word_embeddings)
