"""The layout of the packed chart: one row for each span, ordered by width, then by sentence, without padding."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from simplepcfg.ops.cuda_graphs.capture import is_captured


@dataclass(frozen=True)
class ChartLayout:
    """The rows of the packed chart of one batch, whose sentences are sorted by decreasing length.

    The span of width w that starts at word i of sentence b has row ``first[w] + words_before[b] − b (w − 1) + i``.
    Among the rows of one width, spans that are whole sentences, and so have no parent, are the last.
    """

    n: int
    lengths: tuple[int, ...]  # in decreasing order
    sentences: tuple[int, ...]  # the index in the batch of each of these
    first: tuple[int, ...]  # by width 0 … n + 1: first row of the width; first[1] = 0
    inner: tuple[int, ...]  # by width: the number of its rows that have a parent
    first_rows: Tensor  # [n + 2] int32: ``first`` on the device
    sentence_of_row: Tensor  # [rows] int32
    words_before: Tensor  # [B] int32: number of words in the sentences before
    length_of_sentence: Tensor  # [B] int32
    order: Tensor  # [B] int32: ``sentences`` on the device
    top_rows: Tensor  # [B] int32: row of the whole sentence; -1 for a sentence of one word
    cells: Tensor  # [rows of width 2 or more] int64: flat index into [B, n + 1, n + 1]
    made: "tuple[torch.cuda.Stream, torch.cuda.Event] | None"  # on a GPU: where and when the tables are written

    def use_on_current_stream(self) -> None:
        """Let work on the current stream of a GPU begin after the tables have been written on another one.

        Within a capture this is left out: a capture cannot wait for work before it, which has ended by then.
        """
        if self.made is None or torch.cuda.is_current_stream_capturing():
            return
        stream, event = self.made
        current = torch.cuda.current_stream(stream.device)
        if current != stream:
            current.wait_event(event)
            for table in (self.first_rows, self.sentence_of_row, self.words_before, self.length_of_sentence):
                table.record_stream(current)
            for table in (self.order, self.top_rows, self.cells):
                table.record_stream(current)

    @property
    def rows(self) -> int:
        """Number of spans of all widths."""
        return self.first[-1]

    @property
    def words(self) -> int:
        """Number of rows of width 1."""
        return self.first[2]

    def width(self, width: int) -> slice:
        """Return the rows of a width."""
        return slice(self.first[width], self.first[width + 1])

    def with_parents(self, width: int) -> slice:
        """Return the rows of a width that have a parent."""
        return slice(self.first[width], self.first[width] + self.inner[width])

    def sentence_rows(self, width: int) -> Iterator[tuple[slice, int]]:
        """Yield the rows that have a parent and the index in the batch of each sentence, for batched rules."""
        row = self.first[width]
        for sentence, length in zip(self.sentences, self.lengths, strict=True):
            if length > width:
                count = length - width + 1
                yield slice(row, row + count), sentence
                row += count


@lru_cache(maxsize=256)
def make_layout(n: int, lengths: tuple[int, ...], device: torch.device) -> ChartLayout:
    """Return the layout of a batch of these lengths, cached because it cannot be created during CUDA graph capture.

    Raises RuntimeError if it is: the tables of a cached layout would be written by replays of that graph alone.
    """
    if is_captured(device):
        raise RuntimeError(f"the layout of a chart of {n} words was not made before a CUDA graph is captured")
    sizes = torch.tensor(lengths)
    falling, order = sizes.sort(descending=True, stable=True)
    batch = len(lengths)
    widths = torch.arange(1, n + 1)
    counts = (falling - widths[:, None] + 1).clamp(min=0)  # [n, B]: spans of each width and sentence
    spans = counts.reshape(-1)
    first = torch.cat([spans.new_zeros(2), counts.sum(1).cumsum(0)])  # [n + 2]
    inner = torch.where(falling > widths[:, None], counts, 0).sum(1)
    sentences = torch.arange(batch).repeat(n).repeat_interleave(spans)
    starts = torch.arange(len(sentences)) - (spans.cumsum(0) - spans).repeat_interleave(spans)
    ends = starts + widths.repeat_interleave(batch).repeat_interleave(spans)
    before = falling.cumsum(0) - falling
    tops = torch.where(falling > 1, first[falling] + before - torch.arange(batch) * (falling - 1), -1)
    posts = n + 1
    cells = ((order[sentences] * posts + starts) * posts + ends)[first[2] :]
    tables = (first, sentences, before, falling, order, tops, cells)
    # All tables are copied at once: each copy to a busy GPU has to wait.
    packed = torch.cat(tables)
    if device.type == "cuda":
        packed = packed.pin_memory().to(device, non_blocking=True)
    parts = packed.to(device).split([len(table) for table in tables])
    layout = ChartLayout(
        n,
        tuple(falling.tolist()),
        tuple(order.tolist()),
        tuple(first.tolist()),
        (0, *inner.tolist()),
        first_rows=parts[0].to(torch.int32),
        sentence_of_row=parts[1].to(torch.int32),
        words_before=parts[2].to(torch.int32),
        length_of_sentence=parts[3].to(torch.int32),
        order=parts[4].to(torch.int32),
        top_rows=parts[5].to(torch.int32),
        cells=parts[6],
        made=(torch.cuda.current_stream(device), torch.cuda.Event()) if device.type == "cuda" else None,
    )
    if layout.made is not None:
        stream, event = layout.made
        event.record(stream)
    return layout


def padded_tables(lengths: Tensor, n: int, device: torch.device) -> Tensor:
    """Return the lengths of sentences, and the rows of whole sentences if all of them have the rows of n words.

    The result is [2, B] int32 on the host, pinned for a GPU. The row of a sentence of one word is -1.
    """
    values = lengths.tolist()
    batch = len(values)
    # Rows of width w begin at B · Σ_{v<w} (n − v + 1).
    first = [batch * ((w - 1) * (n + 1) - w * (w - 1) // 2) for w in range(n + 1)]
    tops = [first[w] + b * (n - w + 1) if w > 1 else -1 for b, w in enumerate(values)]
    both = torch.tensor([values, tops], dtype=torch.int32)
    return both.pin_memory() if device.type == "cuda" else both
