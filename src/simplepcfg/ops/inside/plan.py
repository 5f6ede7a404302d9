"""Where each span lies in the packed chart: rows of one width together, sentences by falling length, no padding."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True)
class Plan:
    """Row of the span of width w at i of sentence b (in falling order of length): first[w] + words[b] − b (w − 1) + i.

    Of a width's rows, those that have a parent come first: whole sentences of that length are its last rows.
    """

    n: int
    lengths: tuple[int, ...]  # in falling order
    sentences: tuple[int, ...]  # the batch's index of each of these
    first: tuple[int, ...]  # by width 0 … n + 1: first row of the width; first[1] = 0
    inner: tuple[int, ...]  # by width: how many of its rows have a parent
    first_rows: Tensor  # [n + 2] int32: ``first`` on the device
    sentence_of_row: Tensor  # [rows] int32
    words_before: Tensor  # [B] int32: words of the sentences before
    length_of_sentence: Tensor  # [B] int32
    order: Tensor  # [B] int32: ``sentences`` on the device
    top_rows: Tensor  # [B] int32: row of the whole sentence; -1 for a sentence of one word
    cells: Tensor  # [rows of width 2 or more] int64: flat index into [B, n + 1, n + 1]

    @property
    def rows(self) -> int:
        """All spans of all widths."""
        return self.first[-1]

    @property
    def words(self) -> int:
        """Rows of width 1."""
        return self.first[2]

    def width(self, width: int) -> slice:
        """The rows of a width."""
        return slice(self.first[width], self.first[width + 1])

    def with_parents(self, width: int) -> slice:
        """The rows of a width that are children of some span."""
        return slice(self.first[width], self.first[width] + self.inner[width])


@lru_cache(maxsize=256)
def make_plan(n: int, lengths: tuple[int, ...], device: torch.device) -> Plan:
    """Tables for a batch of these lengths, made once and kept: a captured graph must find them ready."""
    order = sorted(range(len(lengths)), key=lambda b: -lengths[b])
    falling = [lengths[b] for b in order]
    first, inner = [0, 0], [0]
    sentences: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    for width in range(1, n + 1):
        for b, length in enumerate(falling):
            count = max(0, length - width + 1)
            sentences += [b] * count
            starts += range(count)
            ends += range(width, width + count)
        first.append(len(sentences))
        inner.append(sum(length - width + 1 for length in falling if length > width))
    before = [sum(falling[:b]) for b in range(len(falling))]
    tops = [first[length] + before[b] - b * (length - 1) if length > 1 else -1 for b, length in enumerate(falling)]
    posts = n + 1
    cells = [
        (order[b] * posts + i) * posts + j
        for b, i, j in zip(sentences[first[2] :], starts[first[2] :], ends[first[2] :], strict=True)
    ]

    def table(values: list[int], dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.tensor(values, dtype=dtype).to(device)

    return Plan(
        n,
        tuple(falling),
        tuple(order),
        tuple(first),
        tuple(inner),
        table(first),
        table(sentences),
        table(before),
        table(falling),
        table(order),
        table(tops),
        table(cells, torch.int64),
    )
