"""A question asked of a run, sentence by sentence, computed on batches of like length that fit the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from simplepcfg.data.batching import Batch, collate, evaluation_batches
from simplepcfg.errors import ResourceError
from simplepcfg.evaluation import likelihood
from simplepcfg.grammars import Grammar
from simplepcfg.inference.sentences import shortened
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.models.sizes import ModelSizes
from simplepcfg.training.machine.failures import resource_errors

Result = TypeVar("Result")

MEMORY_ADVICE = "leave out the longest sentences or use a smaller model"
# Sentences that are answered before their answers are shown: a second or two of work at first, twice as much each time
# up to a limit, since large blocks have batches of like lengths. Counted, as words² · states · (states + OVERHEAD), and
# not timed: equal runs must make equal batches.
BLOCK_WORK = {"cpu": 2e10, "cuda": 4e12}
MOST_TIMES_THE_FIRST = 8
OVERHEAD = 256
LEAST_IN_A_BLOCK = 256
SURELY_FITS = 40  # words: of shorter sentences nobody asks how large their charts are


def in_batches(
    run: TrainedModel,
    sentences: Sequence[Sequence[str]],
    compute: Callable[[Batch], Sequence[Result]],
    otherwise: Callable[[], Result],
    least: int = 2,
) -> list[Result]:
    """Call ``compute`` on batches of like length; results in the order of the input.

    Sentences of fewer than ``least`` words get the result of ``otherwise()``.
    """
    for index, tokens in enumerate(sentences):
        if (reason := hopeless(run, len(tokens))) is not None:
            raise ResourceError(f"sentence {index} ({shortened(tokens)!r}): {reason}")
    results = [otherwise() for _ in sentences]
    places = [index for index, tokens in enumerate(sentences) if len(tokens) >= least]
    encoded = [run.vocabulary.encode(sentences[index]) for index in places]
    limits = (cells_a_batch(run), likelihood.sentences_a_batch(run.model, run.device))
    for indices in evaluation_batches([len(ids) for ids in encoded], *limits):
        longest = len(encoded[indices[-1]])
        with resource_errors(f"computing on a sentence of {longest} words", MEMORY_ADVICE):
            found = compute(collate(encoded, indices).to(run.device))
        for index, result in zip(indices, found, strict=True):
            results[places[index]] = result
    return results


def blocks(run: TrainedModel, lengths: Sequence[int]) -> Iterator[slice]:
    """Sentences of these lengths in order, in parts that take seconds each: nobody waits for all, or loses all."""
    source = _charts_of(run)
    states = source.span_numbers
    most = BLOCK_WORK["cuda" if run.device.type == "cuda" else "cpu"]
    limit = most * MOST_TIMES_THE_FIRST
    start, work = 0, 0.0
    for index, length in enumerate(lengths):
        work += length**2 * states * (states + OVERHEAD)
        if work >= most and index + 1 - start >= LEAST_IN_A_BLOCK:
            yield slice(start, index + 1)
            start, work, most = index + 1, 0.0, min(2 * most, limit)
    if start < len(lengths):
        yield slice(start, len(lengths))


def cells_a_batch(run: TrainedModel) -> int:
    """See ``Run.cells_a_batch``."""
    return likelihood.cells_a_batch(_charts_of(run), run.device)


def _charts_of(run: TrainedModel) -> Grammar | ModelSizes:
    """What tells the size of a chart: the grammar, or the sizes of one that a compound model would make."""
    return run.grammar if run.shares_rules else run.config.model.sizes(1)


def hopeless(run: TrainedModel, words: int) -> str | None:
    """Why a sentence is not even tried: the system would kill a process with a chart larger than the machine."""
    if words <= SURELY_FITS:
        return None
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return None
    needed = words * words // 2 * likelihood.bytes_a_cell(_charts_of(run), run.device)
    if needed <= memory:
        return None
    return (
        f"a sentence of {words} words needs about {needed / 2**30:.0f} GiB, this machine has "
        f"{memory / 2**30:.0f}; {MEMORY_ADVICE}"
    )
