"""The two kinds of records in metrics.jsonl."""

import math

from simplepcfg.evaluation.perplexity import PerplexityReport
from simplepcfg.files import Record
from simplepcfg.runs.checkpoint import StepSums, TrainingState
from simplepcfg.training.reporting.snapshot import Snapshot


def step_record(state: TrainingState, learning_rate: float) -> Record:
    """Return the record of the steps since the last line: means, counters and the present learning rate."""
    sums = state.since_log
    return {
        "kind": "steps",
        "epoch": state.epoch + 1,
        "step": state.step,
        "loss_nats_per_sentence": sums.loss / sums.sentences if sums.sentences else math.nan,
        "perplexity": sums.perplexity,
        "tokens": sums.tokens,
        "gradient_norm": sums.gradient_norm / sums.steps if sums.steps else math.nan,
        "learning_rate": learning_rate,
        "skipped_steps": state.skipped_steps,
        "impossible_sentences": state.impossible_sentences,
    }


def epoch_record(
    state: TrainingState, trained: StepSums, valid: PerplexityReport, better: bool, snapshot: Snapshot | None
) -> Record:
    """Return the record of the epoch that `state` has just finished; `better` says that it is the best so far."""
    tree = None if snapshot is None else snapshot.tree
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
        "sample_parse": None if tree is None else tree.to_brackets(),
    }
