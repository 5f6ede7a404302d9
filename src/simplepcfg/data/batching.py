"""Sentences to batches of nearly equal lengths, in an order that follows from seed and epoch alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from simplepcfg.data.encoded_text import EncodedText
from simplepcfg.data.vocabulary import PAD_ID


@dataclass(frozen=True, slots=True)
class Batch:
    """Word ids `words` [B, n] padded with 0, `lengths` [B], and where in the corpus each row came from."""

    words: torch.Tensor
    lengths: torch.Tensor
    indices: list[int]

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.indices)

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch with its words on another device, without waiting for the copy; lengths stay on the CPU."""
        return Batch(to_device(self.words, device), self.lengths, self.indices)


def to_device(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """Copy a tensor of any shape to another device; to a GPU from pinned memory, so that the host does not wait."""
    return pinned(tensor, device).to(device, non_blocking=True)


def pinned(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """Return the tensor in pinned memory, from which a GPU copies by itself, if `device` is a GPU; else as it is."""
    return tensor.pin_memory() if torch.device(device).type == "cuda" and not tensor.is_cuda else tensor


def training_batches(lengths: Sequence[int] | torch.Tensor, batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """Return index lists in which each sentence stands exactly once; the same (seed, epoch) gives the same lists.

    Batches are drawn from sentences of one length as long as these fill a batch; what is left over of each
    length is put together with the nearest ones. Only the last of those may be smaller than `batch_size`.
    """
    sizes = torch.as_tensor(lengths, dtype=torch.int64)
    if not len(sizes):
        return []
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    shuffled = torch.randperm(len(sizes), generator=generator)
    by_length = shuffled[torch.argsort(sizes[shuffled], stable=True)]
    counts = torch.unique_consecutive(sizes[by_length], return_counts=True)[1].tolist()
    full: list[list[int]] = []
    left_over: list[int] = []
    for group in by_length.split(counts):
        for batch in group.split(batch_size):
            if len(batch) == batch_size:
                full.append(batch.tolist())
            else:
                left_over.extend(batch.tolist())
    batches = full + [left_over[k : k + batch_size] for k in range(0, len(left_over), batch_size)]
    order = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[k] for k in order]


def evaluation_batches(lengths: Sequence[int], max_cells: int = 100_000, batch_size: int = 256) -> list[list[int]]:
    """Return index lists by growing length, each with B · n² ≤ `max_cells` or a single sentence beyond that."""
    sizes = torch.as_tensor(lengths, dtype=torch.int64)
    batches: list[list[int]] = []
    current: list[int] = []
    for index in torch.argsort(sizes, stable=True).tolist():
        cells = (len(current) + 1) * lengths[index] ** 2
        if current and (cells > max_cells or len(current) == batch_size):
            batches.append(current)
            current = []
        current.append(index)
    return [*batches, current] if current else batches


def collate(sentences: Sequence[Sequence[int]], indices: Sequence[int]) -> Batch:
    """Return the word ids of the chosen sentences as one padded batch on the CPU, [len(indices), longest]."""
    if isinstance(sentences, EncodedText):
        text = sentences.select(indices)
    else:
        text = EncodedText.of(sentences[index] for index in indices)
    return Batch(torch.from_numpy(text.padded(PAD_ID)), torch.from_numpy(text.lengths), list(indices))
