"""Log-likelihoods of whole texts: the rules are computed once, the sentences in batches by length."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from simplepcfg.data.batching import collate, evaluation_batches

# A batch's chart, with what its gradient needs, stays below this many bytes on a CPU, and below this share of a card's
# memory (a long sentence may exceed it). Not what is free at the moment: equal runs must make equal batches.
BATCH_BYTES = 256 * 2**20
CARD_SHARE = 8
# Chart, scales, adjoints: float32 numbers held for every cell of words × words and nonterminal while a batch is
# decoded. Charts are square on a CPU and packed triangles on a card.
NUMBERS_A_STATE = {"cpu": 8, "cuda": 4}
# Beyond this, more sentences a batch save nothing and differ more in length.
MOST_CELLS = 100_000
MOST_CELLS_ON_A_CARD = 2**20


def log_likelihoods(
    model: Any,
    sentences: Sequence[Sequence[int]],
    device: torch.device,
    after_batch: Callable[[], None] | None = None,
) -> torch.Tensor:
    """log p (nats) of each encoded sentence, [S] in float64 on the CPU; −inf below two words.

    `after_batch` is called between batches, so that a caller can stop in the middle by raising.
    """
    order: list[int] = []
    found: list[torch.Tensor] = []
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
                # Copied to the host when all is done: a card does not wait between batches.
                found.append(grammar.log_partition(batch.words, batch.lengths).double())
                order += indices
                if after_batch is not None:
                    after_batch()
    finally:
        model.train(was_training)
    result = torch.full((len(sentences),), -torch.inf, dtype=torch.float64)
    if found:
        result[order] = torch.cat(found).cpu()
    return result


def cells_a_batch(grammar: Any, device: torch.device) -> int:
    """How large a batch may be, as sentences times words squared."""
    budget, most = BATCH_BYTES, MOST_CELLS
    if device.type == "cuda":
        budget = torch.cuda.get_device_properties(device).total_memory // CARD_SHARE
        most = MOST_CELLS_ON_A_CARD
    return min(max(budget // bytes_a_cell(grammar), 1), most)


def bytes_a_cell(grammar: Any) -> int:
    """Memory for one cell of words × words while a batch is decoded."""
    numbers = NUMBERS_A_STATE["cuda" if grammar.root.is_cuda else "cpu"]
    return 4 * numbers * int(grammar.root.shape[-1])
