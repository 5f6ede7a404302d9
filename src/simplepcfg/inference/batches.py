"""Batched computation over sentences: batches of similar length that fit into memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch

from simplepcfg.data.batching import Batch, collate, evaluation_batches
from simplepcfg.errors import ResourceError, counted, shortened
from simplepcfg.evaluation import likelihood
from simplepcfg.grammars import Grammar
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.models.settings import ModelSizes
from simplepcfg.ops.modes import without_modes
from simplepcfg.progress import stage
from simplepcfg.runs.failures import resource_errors
from simplepcfg.runs.memory import physical_memory

Result = TypeVar("Result")

MEMORY_ADVICE = "leave out the longest sentences or use a smaller model"
# Work of a block of sentences, whose results are returned together: a second or two at first, doubled each time up to a
# limit, since batches of large blocks have more similar lengths. The work is counted as
# words² · states · (states + OVERHEAD) and not timed, since equal runs must have equal batches.
BLOCK_WORK = {"cpu": 2e10, "cuda": 4e12}
MOST_TIMES_THE_FIRST = 4
OVERHEAD = 256
LEAST_IN_A_BLOCK = 8
# Work of the longest sentence that is computed unasked, with words³ · states added. On one core of an Arm server,
# parsing 300 words with 1024 nonterminals, which is about this, took 28 s, and 200 words 10 s.
LONGEST_SENTENCE_WORK = {"cpu": 1.6e11, "cuda": 3.2e13}
MOST_WORDS = 1 << 20
SURELY_FITS = 40  # words of a sentence whose chart fits any machine


@without_modes
def in_batches(
    run: TrainedModel,
    sentences: Sequence[Sequence[str]],
    compute: Callable[[Batch], Sequence[Result]],
    otherwise: Callable[[], Result],
    least: int = 2,
    cells: int | None = None,
) -> list[Result]:
    """Call ``compute``, without gradients, on batches of similar length; return the results in the order of the input.

    The indices of a batch are places in ``sentences``. Sentences of fewer than ``least`` words are in no batch and
    get the result of ``otherwise()``. ``cells`` replaces the largest size of a batch, as sentences × words².
    """
    for index, tokens in enumerate(sentences):
        if (reason := reason_too_long(run, len(tokens))) is not None:
            raise ResourceError(f"sentence {index} ({shortened(' '.join(tokens))!r}): {reason}")
    results = [otherwise() for _ in sentences]
    places = [index for index, tokens in enumerate(sentences) if len(tokens) >= least]
    encoded = [run.vocabulary.encode(tokens) for tokens in sentences]
    limits = (cells or cells_a_batch(run), likelihood.sentences_a_batch(run.model, run.device))
    lengths = [len(encoded[index]) for index in places]
    with stage(counted(len(lengths), "sentence"), sum(length**2 for length in lengths)) as advance:
        for chosen in evaluation_batches(lengths, *limits):
            indices = [places[position] for position in chosen]
            what = f"computing on a sentence of {len(encoded[indices[-1]])} words"
            with resource_errors(what, MEMORY_ADVICE), torch.no_grad():
                answers = compute(collate(encoded, indices).to(run.device))
            for index, result in zip(indices, answers, strict=True):
                results[index] = result
            advance(sum(len(encoded[index]) ** 2 for index in indices))
    return results


def blocks(run: TrainedModel, lengths: Iterable[int]) -> Iterator[slice]:
    """Yield consecutive slices of sentences of these lengths, each of which takes some seconds to compute."""
    states = _charts_of(run).span_numbers
    most = BLOCK_WORK["cuda" if run.device.type == "cuda" else "cpu"]
    limit = most * MOST_TIMES_THE_FIRST
    start, index, work = 0, -1, 0.0
    for index, length in enumerate(lengths):
        work += length**2 * states * (states + OVERHEAD)
        if work >= most and index + 1 - start >= LEAST_IN_A_BLOCK:
            yield slice(start, index + 1)
            start, work, most = index + 1, 0.0, min(2 * most, limit)
    if start <= index:
        yield slice(start, index + 1)


def longest_sentence(run: TrainedModel, most: int | None = None) -> int:
    """Return the most words of a sentence that fits into memory and has at most `most` words.

    Without `most` it also takes no longer than half a minute, by the speed that was measured on a CPU.
    """
    states = _charts_of(run).span_numbers
    limit = LONGEST_SENTENCE_WORK["cuda" if run.device.type == "cuda" else "cpu"]

    def is_too_long(words: int) -> bool:
        if most is None and words**2 * states * (states + OVERHEAD + words) > limit:
            return True
        return reason_too_long(run, words) is not None

    return bisect_left(range(MOST_WORDS if most is None else most + 1), True, lo=1, key=is_too_long) - 1


def cells_a_batch(run: TrainedModel) -> int:
    """Return the largest size of a batch, as sentences × words²."""
    return likelihood.cells_a_batch(_charts_of(run), run.device)


def _charts_of(run: TrainedModel) -> Grammar | ModelSizes:
    """Return the grammar, or the sizes of one of a compound model's grammars, which give the size of a chart."""
    return run.grammar if run.shares_rules else run.config.model.sizes(1)


def reason_too_long(run: TrainedModel, words: int) -> str | None:
    """Return why a sentence of so many words cannot be computed, or None if its chart fits into memory.

    The system would kill a process whose chart is larger than the machine's memory.
    """
    if words <= SURELY_FITS:
        return None
    memory = physical_memory()
    needed = words * words // 2 * likelihood.bytes_a_cell(_charts_of(run), run.device)
    if memory is None or needed <= memory:
        return None
    return (
        f"a sentence of {words} words needs about {needed / 2**30:.0f} GiB, this machine has "
        f"{memory / 2**30:.0f}; {MEMORY_ADVICE}"
    )
