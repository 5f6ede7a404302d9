"""log p of sentences under a run: exact where all share their rules, else at the mean of z, or by sampling z."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from simplepcfg.data.batching import Batch
from simplepcfg.errors import InputError, NumericalError
from simplepcfg.evaluation.second_look import SecondLook
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.marginals import Bonus
from simplepcfg.inference.trained_model import TrainedModel

IMPORTANCE_SEED = 0
MOST_IMPORTANCE_SAMPLES = 100_000


def log_probabilities(
    run: TrainedModel, sentences: Sequence[Sequence[str]], bonus: Bonus = lambda batch: None
) -> list[float]:
    """log p (nats) of sentences as the model sees them, as `Run.score` and perplexity report it.

    What float32 calls impossible is looked at again in float64.
    """
    look = SecondLook(run.model, run.grammar if run.shares_rules else None)

    def compute(batch: Batch) -> list[float]:
        weights = bonus(batch)
        with torch.no_grad():
            if run.shares_rules:
                scores = run.grammar.log_partition(batch.words, batch.lengths, span_bonus=weights)
                return look.mended(scores, batch.words, batch.lengths, weights).tolist()
            if weights is not None:
                raise InputError(
                    f"{run.name}: a model of kind {run.config.model.kind} has no exact log p, and none "
                    "with constraints; score without them or use an sn-pcfg"
                )
            scores = run.model.log_likelihood(batch.words, batch.lengths)  # type: ignore[operator]
            return look.mended(scores, batch.words, batch.lengths).tolist()

    scores = in_batches(run, sentences, compute, lambda: -math.inf)
    if any(math.isnan(score) for score in scores):
        raise NumericalError(f"{run.name}: log-probabilities are NaN; its weights are damaged, train it again")
    return scores


def importance_log_probabilities(run: TrainedModel, sentences: Sequence[Sequence[str]], samples: int) -> list[float]:
    """log p (nats) by importance sampling, for models that have no exact one; the seed is fixed."""
    if run.shares_rules:
        raise InputError(
            f"{run.name}: a model of kind {run.config.model.kind} has an exact log p; importance sampling is for "
            "compound models, leave it out"
        )
    if not 1 <= samples <= MOST_IMPORTANCE_SAMPLES:
        raise InputError(f"importance = {samples}; take 1 to {MOST_IMPORTANCE_SAMPLES:,} samples a sentence")
    generator = torch.Generator().manual_seed(IMPORTANCE_SEED)

    def compute(batch: Batch) -> list[float]:
        with torch.no_grad():
            return run.model.importance_log_likelihood(  # type: ignore[operator]
                batch.words, batch.lengths, samples=samples, generator=generator
            ).tolist()

    return in_batches(run, sentences, compute, lambda: -math.inf)
