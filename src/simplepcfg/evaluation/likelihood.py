"""Log-likelihoods of whole texts: the rules are computed once, the sentences in batches by length."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from simplepcfg.data.batching import collate, evaluation_batches

# A batch's chart stays below this many bytes, so that validation needs no more room than training.
CHART_BYTES = {"cpu": 256 * 2**20, "cuda": 4 * 2**30}


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
            for positions in evaluation_batches(lengths, max_cells=_cells(grammar, device)):
                indices = [scorable[position] for position in positions]
                batch = collate(sentences, indices).to(device)
                result[indices] = grammar.log_partition(batch.words, batch.lengths).double().cpu()
                if after_batch is not None:
                    after_batch()
    finally:
        model.train(was_training)
    return result


def _cells(grammar: Any, device: torch.device) -> int:
    """How many spans fit the budget: of each, η and ζ are kept in float32, and as much again is in use."""
    bytes_a_cell = 16 * int(grammar.root.shape[-1])
    return max(1, CHART_BYTES.get(device.type, CHART_BYTES["cpu"]) // bytes_a_cell)
