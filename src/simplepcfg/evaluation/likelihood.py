"""Log-likelihoods of whole texts: the rules are computed once, the sentences in batches by length."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from simplepcfg.data.batching import collate, evaluation_batches

# A batch's chart, with what its gradient needs, stays below this many bytes (a long sentence may exceed it).
BATCH_BYTES = {"cpu": 256 * 2**20, "cuda": 4 * 2**30}
# Chart, scales, adjoints: float32 numbers held for every span and nonterminal while a batch is decoded.
NUMBERS_A_STATE = 8
# Beyond this, more sentences a batch save nothing and differ more in length.
MOST_CELLS = 100_000


def log_likelihoods(
    model: Any,
    sentences: Sequence[Sequence[int]],
    device: torch.device,
    after_batch: Callable[[], None] | None = None,
) -> torch.Tensor:
    """log p (nats) of each encoded sentence, [S] in float64 on the CPU; −inf below two words.

    `after_batch` is called between batches, so that a caller can stop in the middle by raising.
    """
    result = torch.full((len(sentences),), -torch.inf, dtype=torch.float64)
    scorable = [index for index, sentence in enumerate(sentences) if len(sentence) >= 2]
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            grammar = model.grammar()
            lengths = [len(sentences[index]) for index in scorable]
            for positions in evaluation_batches(lengths, max_cells=cells_a_batch(grammar, device)):
                indices = [scorable[position] for position in positions]
                batch = collate(sentences, indices).to(device)
                result[indices] = grammar.log_partition(batch.words, batch.lengths).double().cpu()
                if after_batch is not None:
                    after_batch()
    finally:
        model.train(was_training)
    return result


def cells_a_batch(grammar: Any, device: torch.device) -> int:
    """How large a batch may be, as sentences times words squared."""
    budget = BATCH_BYTES.get(device.type, BATCH_BYTES["cpu"]) // bytes_a_cell(grammar)
    return min(max(budget, 1), MOST_CELLS)


def bytes_a_cell(grammar: Any) -> int:
    """Memory for one span while a batch is decoded."""
    return 4 * NUMBERS_A_STATE * int(grammar.root.shape[-1])
