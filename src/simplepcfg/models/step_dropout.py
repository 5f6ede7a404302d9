"""Dropout of symbols, embedding features and logits in a training step."""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplepcfg.ops.neural import LEAST_FACTOR


@dataclass(slots=True)
class StepDropout:
    """The symbols and features that take part in a training step; evaluation always uses all of them.

    The trainer sets it as `step_dropout` of a model and overwrites `kept` and `kernel_rows` before every step.
    """

    counts: tuple[int, ...]  # number of symbols of each group that take part
    kept: Tensor | None = None  # their rows in the table of symbols, group by group; None keeps all
    features: float = 0.0  # share of the numbers of embeddings that are set to 0
    kernel_rows: Tensor | None = None  # rows of the table of an LHMM's kernel features that take part; None keeps all
    logits: float = 0.0  # share of the single logits of a Rank HMM's factors that are set to −∞

    def table(self, table: Tensor) -> Tensor:
        """Return the rows of the kept symbols, of a table with one row for each symbol, with dropout of features."""
        return self.drop_features(table if self.kept is None else table.index_select(0, self.kept))

    def first_rows(self, table: Tensor) -> Tensor:
        """Return the rows of the kept symbols, of a table with one row for each symbol of the first group only."""
        return table if self.kept is None else table.index_select(0, self.kept[: self.counts[0]])

    def drop_features(self, embeddings: Tensor) -> Tensor:
        """Return embeddings with dropout applied to their numbers."""
        return F.dropout(embeddings, self.features) if self.features else embeddings

    def drop_logits(self, probabilities: Tensor) -> Tensor:
        """Return the row-wise softmax of the same logits with a random share of them set to −∞.

        As in all factors, no probability is below `LEAST_FACTOR`, and so none is 0.
        """
        if not self.logits:
            return probabilities
        dropped = F.dropout(probabilities, self.logits)
        total = dropped.sum(-1, keepdim=True, dtype=torch.promote_types(dropped.dtype, torch.float32))
        normalised = dropped / total.clamp(min=LEAST_FACTOR)  # The total is 0 where all logits of a row are dropped.
        return normalised.to(dropped.dtype).clamp(min=LEAST_FACTOR)


class SupportsDropout(Protocol):
    """A model whose training steps can leave out some of its symbols."""

    training: bool
    step_dropout: StepDropout | None
    symbols: nn.Parameter
    word_embeddings: nn.Parameter

    @property
    def symbol_groups(self) -> tuple[int, ...]:
        """Number of symbols of each kind, in the order of the table."""
        ...


def active_dropout(model: SupportsDropout) -> StepDropout:
    """Return the dropout of a training step; in evaluation one that leaves nothing out."""
    if model.training and model.step_dropout is not None:
        return model.step_dropout
    return StepDropout(model.symbol_groups)


def select_tables(model: SupportsDropout) -> tuple[Tensor, tuple[int, ...], Tensor]:
    """Return symbol embeddings, the number of symbols of each group, and word embeddings, as the step uses them."""
    dropout = active_dropout(model)
    return dropout.table(model.symbols), dropout.counts, dropout.drop_features(model.word_embeddings)
