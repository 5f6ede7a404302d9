"""Log-probabilities of sentences: exact where all share their rules, else at the mean of z."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from simplepcfg.data.batching import Batch
from simplepcfg.data.preprocessing import Prepared
from simplepcfg.errors import InputError, NumericalError
from simplepcfg.evaluation.float64_recheck import Float64Recheck
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.marginals import Bonus, no_bonus
from simplepcfg.inference.trained_model import TrainedModel


class PrunedScore(NamedTuple):
    """A natural log-probability, and by how much it is estimated to be too small: 0 where no span was left out."""

    log_probability: float
    error: float


def sentence_scores(
    run: TrainedModel, prepared: list[Prepared], bonus: Bonus, *, pruned: bool = False
) -> list[PrunedScore]:
    """Return the log-probability (nats) of each sentence, the spellings of its unknown words included."""
    tokens = [item.tokens for item in prepared]
    return [
        PrunedScore(log_p + run.spellings_log_probability(words), error)
        for (log_p, error), words in zip(token_scores(run, tokens, bonus, pruned=pruned), tokens, strict=True)
    ]


def token_scores(
    run: TrainedModel,
    sentences: Sequence[Sequence[str]],
    bonus: Bonus = no_bonus,
    *,
    pruned: bool = False,
) -> list[PrunedScore]:
    """Return the log-probability (nats) of sentences of tokens, of which perplexity is made: without spellings.

    Sentences of probability 0 in float32 are recomputed in float64. `bonus` gives the span bonus of a batch. With
    `pruned`, improbable spans are left out where all sentences share their rules. Raises InputError for constraints on
    a compound model and NumericalError for NaN.
    """
    recheck = Float64Recheck(run.model, run.grammar if run.shares_rules else None)

    def compute(batch: Batch) -> list[PrunedScore]:
        weights, errors = bonus(batch), torch.zeros(len(batch))
        if run.shares_rules and pruned:
            values, errors = run.grammar.pruned_log_partition(batch.words, batch.lengths, span_bonus=weights)
        elif run.shares_rules:
            values = run.grammar.log_partition(batch.words, batch.lengths, span_bonus=weights)
        elif weights is None:
            values = run.model.log_likelihood(batch.words, batch.lengths)  # type: ignore[operator]
        else:
            raise InputError(
                f"{run.name}: a model of kind {run.config.model.kind} has no exact log p, and none "
                "with constraints; score without them or use an sn-pcfg"
            )
        values = recheck.log_likelihoods(values, batch.words, batch.lengths, weights)
        return list(map(PrunedScore, values.tolist(), errors.tolist()))

    scores = in_batches(run, sentences, compute, lambda: PrunedScore(-math.inf, 0.0))
    if any(math.isnan(score.log_probability) for score in scores):
        raise NumericalError(f"{run.name}: log-probabilities are NaN; its weights are damaged, train it again")
    return scores
