"""Log-likelihoods of whole texts, computed in batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from simplepcfg.data.batching import Batch, collate, evaluation_batches
from simplepcfg.data.encoded_text import sentence_lengths
from simplepcfg.evaluation.float64_recheck import Float64Recheck
from simplepcfg.grammars import Grammar
from simplepcfg.models.settings import ModelSizes

# The chart of a batch, with what its gradient needs, stays below this many bytes on a CPU and below 1 / 8 of a GPU's
# memory; a single long sentence may exceed it. The free memory is not asked for, since equal runs must have equal
# batches.
BATCH_BYTES = 256 * 2**20
GPU_MEMORY_DIVISOR = 8
# Float32 numbers of chart, scales and gradients for every cell of words × words and nonterminal while a batch is
# decoded. Charts are square on a CPU and packed triangles on a GPU.
NUMBERS_A_STATE = {"cpu": 8, "cuda": 4}
# Larger batches are not faster, and their sentences differ more in length.
MAX_CELLS = 100_000
MAX_CELLS_ON_GPU = 2**20
MAX_SENTENCES = 256
# Copies of the rules of each sentence, where it has its own: logits and probabilities.
RULE_COPIES = 3


def log_likelihoods(
    model: Any,
    sentences: Sequence[Sequence[int]],
    device: torch.device,
    after_batch: Callable[[], None] | None = None,
    precision: str | None = None,
) -> torch.Tensor:
    """Return the log-likelihood in nats of each encoded sentence, [S] in float64 on the CPU; −∞ below two words.

    Sentences of probability 0 in float32 are recomputed in float64. `after_batch` is called between batches and may
    raise to stop. `precision` is that of products with rules that all sentences share; None is float32.
    """
    sizes = sentence_lengths(sentences)
    scorable = [index for index, size in enumerate(sizes) if size >= 2]
    result = torch.full((len(sentences),), -torch.inf, dtype=torch.float64)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            grammar = shared_grammar(model, precision) if model.shares_rules else None
            source = model.config.sizes(1) if grammar is None else grammar
            limits = (cells_a_batch(source, device), sentences_a_batch(model, device))

            def batches(indices: Sequence[int]) -> Iterator[Batch]:
                for positions in evaluation_batches([sizes[index] for index in indices], *limits):
                    yield collate(sentences, [indices[position] for position in positions]).to(device)
                    if after_batch is not None:
                        after_batch()

            # The results are copied to the host at the end, so that a GPU does not wait between batches.
            log_partition = model.log_likelihood if grammar is None else grammar.log_partition
            parts = [(batch.indices, log_partition(batch.words, batch.lengths).double()) for batch in batches(scorable)]
            for indices, values in parts:
                result[indices] = values.cpu()
            recheck = Float64Recheck(model, grammar)
            for batch in batches([index for index in scorable if result[index] == -torch.inf]):
                result[batch.indices] = recheck.log_likelihoods(result[batch.indices], batch.words, batch.lengths)
    finally:
        model.train(was_training)
    return result


def shared_grammar(model: Any, precision: str | None = None) -> Any:
    """Return the grammar of a model whose rules all sentences share, with this precision of products if it has one."""
    grammar = model.grammar()
    return replace(grammar, precision=precision) if precision is not None and hasattr(grammar, "precision") else grammar


def cells_a_batch(source: Grammar | ModelSizes, device: torch.device) -> int:
    """Return the largest size of a batch, as sentences × words², for a grammar or a model's sizes."""
    most = MAX_CELLS_ON_GPU if device.type == "cuda" else MAX_CELLS
    return min(max(_budget(device) // bytes_a_cell(source, device), 1), most)


def sentences_a_batch(model: Any, device: torch.device) -> int:
    """Return the largest number of sentences of a batch, which is smaller where each has its own rules."""
    if model.shares_rules:
        return MAX_SENTENCES
    sizes = model.config.sizes(1)
    own = 4 * RULE_COPIES * (sizes.rules + sizes.tags)
    return min(max(_budget(device) // own, 1), MAX_SENTENCES)


def bytes_a_cell(source: Grammar | ModelSizes, device: torch.device | None = None) -> int:
    """Return the bytes of one cell of words × words while a batch is decoded, for a grammar or a model's sizes."""
    numbers = NUMBERS_A_STATE["cuda" if device is not None and device.type == "cuda" else "cpu"]
    return 4 * numbers * max(source.span_numbers, 1)


def _budget(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory // GPU_MEMORY_DIVISOR
    return BATCH_BYTES
