"""Dropout of symbols, embedding features and logits in a training step."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplepcfg.models.exact import ExactModel
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


class DropoutModel(ExactModel):
    """Base of models whose training steps can leave out some of their symbols."""

    symbols: nn.Parameter
    word_embeddings: nn.Parameter
    precision: str | None = None  # of matrix products in training; evaluation has float32 accuracy
    step_dropout: StepDropout | None = None  # set by the trainer

    @property
    def symbol_groups(self) -> tuple[int, ...]:
        """Number of symbols of each kind, in the order of the table."""
        raise NotImplementedError

    def active_dropout(self) -> StepDropout:
        """Return the dropout of a training step; in evaluation one that leaves nothing out."""
        if self.training and self.step_dropout is not None:
            return self.step_dropout
        return StepDropout(self.symbol_groups)

    def select_tables(self) -> tuple[Tensor, tuple[int, ...], Tensor]:
        """Return symbol embeddings, the number of symbols of each group, and word embeddings, as the step uses them."""
        dropout = self.active_dropout()
        return dropout.table(self.symbols), dropout.counts, dropout.drop_features(self.word_embeddings)
