"""What a training step leaves out of a model, so that the model does not lean on it: symbols, features, logits."""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplepcfg.ops.neural import LEAST_FACTOR


@dataclass(slots=True)
class Thinning:
    """Set on a model by whoever trains it; evaluation always sees everything."""

    counts: tuple[int, ...]  # how many symbols of each group take part
    kept: Tensor | None = None  # their rows in the table of symbols, group by group; None keeps all
    features: float = 0.0  # share of the numbers of embeddings that are set to 0
    kernel_rows: Tensor | None = None  # rows of the table of an LHMM's kernel features that take part; None keeps all
    logits: float = 0.0  # share of the single logits of a Rank HMM's factors that are set to −∞

    def rows(self, table: Tensor) -> Tensor:
        """The rows of those who take part, of any table with a row for each symbol."""
        return table if self.kept is None else table.index_select(0, self.kept)

    def first_rows(self, table: Tensor) -> Tensor:
        """The same of a table with a row for each symbol of the first group alone."""
        return table if self.kept is None else table.index_select(0, self.kept[: self.counts[0]])

    def thin(self, embeddings: Tensor) -> Tensor:
        """With some features set to 0 and the others made larger in turn."""
        return F.dropout(embeddings, self.features) if self.features else embeddings

    def drop_logits(self, probabilities: Tensor) -> Tensor:
        """By rows, the softmax of the same logits with some of them set to −∞: those left share the probability.

        As everywhere, no factor is below the least probability, and so none is 0 either.
        """
        if not self.logits:
            return probabilities
        dropped = F.dropout(probabilities, self.logits)
        total = dropped.sum(-1, keepdim=True, dtype=torch.promote_types(dropped.dtype, torch.float32))
        found = dropped / total.clamp(min=LEAST_FACTOR)  # a row may have lost all its logits
        return found.to(dropped.dtype).clamp(min=LEAST_FACTOR)


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


def step_rows(model: Thinnable, table: Tensor) -> Tensor:
    """Another table with a row for each symbol, as a step sees it."""
    thinning = model.thinning if model.training else None
    return table if thinning is None else thinning.thin(thinning.rows(table))
