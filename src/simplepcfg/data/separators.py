"""Marks of punctuation that were dropped and separate phrases: where they stood, and which spans cross one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from simplepcfg.data.preprocessing import is_separator


def separator_places(words: Sequence[str], kept: Sequence[int]) -> list[int]:
    """Return the places between the kept words where a separator was dropped.

    Place k is before kept word k; the ends of the sentence are not listed. Separators are commas, full stops,
    brackets, quotation marks and the like, not hyphens or signs such as %.

    >>> separator_places(["well", ",", "he", "left", "."], [0, 2, 3])
    [1]
    """
    return [
        place
        for place, (before, after) in enumerate(pairwise(kept), start=1)
        if any(is_separator(word) for word in words[before + 1 : after])
    ]


def crossing_spans(places: Sequence[Sequence[int]], n: int, lengths: Tensor) -> Tensor:
    """Return which spans cross a separator, [B, n + 1, n + 1], for sentences with lengths [B] in a batch of width n.

    A span (i, j) does if a separator stands inside it, and neither i nor j is the place of one or an end of the
    sentence.
    """
    inside = torch.zeros(len(lengths), n + 1)
    for row, here in zip(inside, places, strict=True):
        row[list(here)] = 1
    at_break = inside.bool()
    at_break[:, 0] = True
    at_break.scatter_(1, lengths.view(-1, 1), True)
    up_to = inside.cumsum(1)  # separators at places 0 … k
    before = torch.cat([torch.zeros(len(lengths), 1), up_to[:, :-1]], 1)  # and before place k
    return (before[:, None, :] > up_to[:, :, None]) & ~at_break[:, :, None] & ~at_break[:, None, :]
