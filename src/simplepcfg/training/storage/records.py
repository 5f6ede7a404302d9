"""The two kinds of lines in metrics.jsonl."""

import math
from typing import Any

from simplepcfg.evaluation.perplexity import PerplexityReport
from simplepcfg.training.storage.checkpoint import Tally, TrainingState


def step_record(state: TrainingState, learning_rate: float) -> dict[str, Any]:
    """Means since the last line, at the present step."""
    tally = state.since_log
    return {
        "kind": "steps",
        "epoch": state.epoch + 1,
        "step": state.step,
        "loss_nats_per_sentence": tally.loss / tally.sentences if tally.sentences else math.nan,
        "perplexity": tally.perplexity,
        "tokens": tally.tokens,
        "gradient_norm": tally.gradient_norm / tally.steps if tally.steps else math.nan,
        "learning_rate": learning_rate,
        "skipped_steps": state.skipped_steps,
        "impossible_sentences": state.impossible_sentences,
    }


def epoch_record(state: TrainingState, trained: Tally, valid: PerplexityReport, better: bool) -> dict[str, Any]:
    """The epoch that `state` has just finished."""
    return {
        "kind": "epoch",
        "epoch": state.epoch,
        "step": state.step,
        "train_perplexity": trained.perplexity,
        "valid_log_likelihood_nats": valid.log_likelihood,
        "valid_tokens": valid.tokens,
        "valid_perplexity": valid.perplexity,
        "valid_sentences": valid.sentences,
        "valid_impossible": valid.impossible,
        "best": better,
        "skipped_steps": state.skipped_steps,
    }
