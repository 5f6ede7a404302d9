"""Log-probabilities of sentences: exact where all share their rules, else at the mean of z."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from simplepcfg.data.batching import Batch
from simplepcfg.errors import InputError, NumericalError
from simplepcfg.evaluation.float64_recheck import Float64Recheck
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.marginals import Bonus
from simplepcfg.inference.trained_model import TrainedModel


def log_probabilities(
    run: TrainedModel, sentences: Sequence[Sequence[str]], bonus: Bonus = lambda batch: None
) -> list[float]:
    """Return the log-probability (nats) of sentences of tokens, as `Run.score` and perplexity report it.

    Sentences of probability 0 in float32 are recomputed in float64. `bonus` gives the span bonus of a batch. Raises
    InputError for constraints on a compound model and NumericalError for NaN.
    """
    recheck = Float64Recheck(run.model, run.grammar if run.shares_rules else None)

    def compute(batch: Batch) -> list[float]:
        weights = bonus(batch)
        if run.shares_rules:
            values = run.grammar.log_partition(batch.words, batch.lengths, span_bonus=weights)
        elif weights is None:
            values = run.model.log_likelihood(batch.words, batch.lengths)  # type: ignore[operator]
        else:
            raise InputError(
                f"{run.name}: a model of kind {run.config.model.kind} has no exact log p, and none "
                "with constraints; score without them or use an sn-pcfg"
            )
        return recheck.log_likelihoods(values, batch.words, batch.lengths, weights).tolist()

    log_p = in_batches(run, sentences, compute, lambda: -math.inf)
    if any(math.isnan(value) for value in log_p):
        raise NumericalError(f"{run.name}: log-probabilities are NaN; its weights are damaged, train it again")
    return log_p


class PrunedScore(NamedTuple):
    """A natural log-probability without improbable spans, and by how much it is estimated to be too small."""

    log_probability: float
    error: float


def pruned_log_probabilities(
    run: TrainedModel, sentences: Sequence[Sequence[str]], bonus: Bonus = lambda batch: None
) -> list[PrunedScore]:
    """Return ``log_probabilities`` without improbable spans where all sentences share their rules, else exact ones."""
    if not run.shares_rules:
        return [PrunedScore(value, 0.0) for value in log_probabilities(run, sentences, bonus)]
    recheck = Float64Recheck(run.model, run.grammar)

    def compute(batch: Batch) -> list[PrunedScore]:
        weights = bonus(batch)
        values, errors = run.grammar.pruned_log_partition(batch.words, batch.lengths, span_bonus=weights)
        values = recheck.log_likelihoods(values, batch.words, batch.lengths, weights)
        return [PrunedScore(*pair) for pair in zip(values.tolist(), errors.tolist(), strict=True)]

    return in_batches(run, sentences, compute, lambda: PrunedScore(-math.inf, 0.0))
