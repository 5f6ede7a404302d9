"""Log-likelihoods of whole texts: rules that all sentences share are computed once, sentences in batches."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from simplepcfg.data.batching import collate, evaluation_batches
from simplepcfg.evaluation.second_look import SecondLook
from simplepcfg.grammars import Grammar
from simplepcfg.models.sizes import ModelSizes

# A batch's chart, with what its gradient needs, stays below this many bytes on a CPU, and below this share of a GPU's
# memory (a long sentence may exceed it). Not what is free at the moment: equal runs must make equal batches.
BATCH_BYTES = 256 * 2**20
GPU_MEMORY_DIVISOR = 8
# Chart, scales, adjoints: float32 numbers held for every cell of words × words and nonterminal while a batch is
# decoded. Charts are square on a CPU and packed triangles on a GPU.
NUMBERS_A_STATE = {"cpu": 8, "cuda": 4}
# Beyond this, more sentences a batch save nothing and differ more in length.
MOST_CELLS = 100_000
MAX_CELLS_ON_GPU = 2**20
MOST_SENTENCES = 256
# Scores and probabilities of the rules that a sentence has to itself.
RULE_COPIES = 3


def log_likelihoods(
    model: Any,
    sentences: Sequence[Sequence[int]],
    device: torch.device,
    after_batch: Callable[[], None] | None = None,
    precision: str | None = None,
) -> torch.Tensor:
    """log p (nats) of each encoded sentence, as the model reports it, [S] in float64 on the CPU; −inf below two words.

    What float32 calls impossible is looked at again in float64. `after_batch` is called between batches, so that a
    caller can stop in the middle by raising. `precision` is that of products with rules that all sentences share.
    """
    order: list[int] = []
    found: list[torch.Tensor] = []
    scorable = [index for index, sentence in enumerate(sentences) if len(sentence) >= 2]
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            grammar: Any = model.grammar() if model.shares_rules else None
            if precision is not None and hasattr(grammar, "precision"):
                grammar = replace(grammar, precision=precision)
            source = model.config.sizes(1) if grammar is None else grammar
            lengths = [len(sentences[index]) for index in scorable]
            limits = (cells_a_batch(source, device), sentences_a_batch(model, device))
            for positions in evaluation_batches(lengths, *limits):
                indices = [scorable[position] for position in positions]
                batch = collate(sentences, indices).to(device)
                # Copied to the host when all is done: a GPU does not wait between batches.
                if grammar is None:
                    scores = model.log_likelihood(batch.words, batch.lengths)
                else:
                    scores = grammar.log_partition(batch.words, batch.lengths)
                found.append(scores.double())
                order += indices
                if after_batch is not None:
                    after_batch()
            result = torch.full((len(sentences),), -torch.inf, dtype=torch.float64)
            if found:
                result[order] = torch.cat(found).cpu()
            rare = [index for index in scorable if result[index] == -torch.inf]
            look = SecondLook(model, grammar)
            for positions in evaluation_batches([len(sentences[index]) for index in rare], *limits):
                batch = collate(sentences, [rare[position] for position in positions]).to(device)
                result[batch.indices] = look.mended(result[batch.indices], batch.words, batch.lengths)
                if after_batch is not None:
                    after_batch()
    finally:
        model.train(was_training)
    return result


def cells_a_batch(source: Grammar | ModelSizes, device: torch.device) -> int:
    """How large a batch may be, as sentences times words squared; of a grammar or a model's sizes."""
    most = MAX_CELLS_ON_GPU if device.type == "cuda" else MOST_CELLS
    return min(max(_budget(device) // bytes_a_cell(source, device), 1), most)


def sentences_a_batch(model: Any, device: torch.device) -> int:
    """How many sentences a batch may have: fewer where each has rules of its own."""
    if model.shares_rules:
        return MOST_SENTENCES
    sizes = model.config.sizes(1)
    own = 4 * RULE_COPIES * (sizes.rules + sizes.tags)
    return min(max(_budget(device) // own, 1), MOST_SENTENCES)


def bytes_a_cell(source: Grammar | ModelSizes, device: torch.device | None = None) -> int:
    """Memory for one cell of words × words while a batch is decoded; of a grammar or a model's sizes."""
    numbers = NUMBERS_A_STATE["cuda" if device is not None and device.type == "cuda" else "cpu"]
    return 4 * numbers * max(source.span_numbers, 1)


def _budget(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory // GPU_MEMORY_DIVISOR
    return BATCH_BYTES
