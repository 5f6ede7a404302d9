"""Compile the kernels of a run before its first step, on all cores of the host instead of one after the other."""

from collections.abc import Sequence
from itertools import islice

import torch

from simplepcfg.data.batching import Batch, collate, pinned
from simplepcfg.data.encoded_text import sentence_lengths
from simplepcfg.evaluation.likelihood import shared_grammar
from simplepcfg.models import Model
from simplepcfg.ops.capture import Launch
from simplepcfg.ops.compile_ahead import compile_kernels
from simplepcfg.ops.deferred_checks import DeferredChecks, deferring_checks
from simplepcfg.ops.inside.layout import make_layout
from simplepcfg.training.step.step import Step

SENTENCES = 8  # of a validation batch that stands for all of them
BATCHES = 8  # so many of the first ones show which kernels the first steps launch


def compile_first_kernels(
    step: Step,
    model: Model,
    train: Sequence[Sequence[int]],
    batches: Sequence[Sequence[int]],
    valid: Sequence[Sequence[int]],
    validation_precision: str | None,
) -> None:
    """Compile what the first of `batches` (indices of training sentences) and the validation launch on a GPU.

    A batch of unequal lengths, which has kernels of its own, is always among them. Steps with a teacher or a branching
    bias have others, which are compiled where they are first launched.
    """
    sizes = sentence_lengths(train)
    unequal = (indices for indices in batches if len({sizes[index] for index in indices}) > 1)
    chosen = [collate(train, indices) for indices in [*batches[:BATCHES], *islice(unequal, 1)]]
    computations = step.computations(chosen)
    scorable = [index for index, size in enumerate(sentence_lengths(valid)) if size > 1][:SENTENCES]
    if scorable and model.shares_rules:
        computations.append(_validation(model, collate(valid, scorable), validation_precision, step.device))
    compile_kernels(computations, step.device)


def _validation(model: Model, batch: Batch, precision: str | None, device: torch.device) -> Launch:
    words, lengths = batch.to(device).words, pinned(batch.lengths, device)
    make_layout(words.shape[1], tuple(batch.lengths.tolist()), words.device)  # it cannot be made while it is captured
    checks = DeferredChecks(device)

    def run() -> None:
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad(), deferring_checks(checks):
                shared_grammar(model, precision).log_partition(words, lengths)
        finally:
            model.train(was_training)

    return run
