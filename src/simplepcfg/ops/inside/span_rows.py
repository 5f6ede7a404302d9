"""Functions of Triton kernels that find rows of a packed chart: of a span's sentence, its children and its parents.

Rows are sorted by width, then by sentence, then by the first word. If all sentences have n words (EQUAL), rows are
computed; otherwise they are loaded from the layout.
"""

# mypy: ignore-errors
# ruff: noqa: RET505 (a jitted function returns from both branches of a constexpr condition)
import triton
import triton.language as tl


@triton.jit
def _first_row(first_rows, width, mask, batch, n, EQUAL: tl.constexpr):
    """The first row of a width: computed if all sentences have n words (EQUAL), else loaded from the layout."""
    if EQUAL:
        narrower = width - 1
        return (batch * (narrower * n - narrower * (narrower - 1) // 2)).to(tl.int64)
    else:
        return tl.load(first_rows + width, mask=mask, other=0).to(tl.int64)


@triton.jit
def _sentence(sentence_of_row, first_row, offset, mask, width, n, EQUAL: tl.constexpr):
    """The sentence, in decreasing order of length, of the span at ``offset`` within its width."""
    if EQUAL:
        return (offset // (n - width + 1)).to(tl.int64)
    else:
        return tl.load(sentence_of_row + first_row + offset, mask=mask, other=0).to(tl.int64)


@triton.jit
def _start_and_length(words_before, length_of_sentence, offset, b, width, n, EQUAL: tl.constexpr, PADDED: tl.constexpr):
    """The first word of the span, and the length of its sentence, which is less than n only if it is padded."""
    if EQUAL:
        start = offset - b * (n - width + 1)
        if PADDED:
            return start, tl.load(length_of_sentence + b).to(tl.int64)
        else:
            return start, b * 0 + n
    else:
        start = offset - tl.load(words_before + b) + b * (width - 1)
        return start, tl.load(length_of_sentence + b).to(tl.int64)


@triton.jit
def _parents(start, width, length, side, PADDED: tl.constexpr):
    """The number of parents of a span as left (side 0) or right child; a span beyond its sentence has none."""
    parents = tl.where(side == 0, length - (start + width), start)
    if PADDED:
        parents = tl.where(start + width <= length, parents, 0)
    return parents


@triton.jit
def _children(first_rows, offset, b, width, k, mask, batch, n, EQUAL: tl.constexpr):
    """The rows of the left and the right child of split k of the span at ``offset`` within its width."""
    before = _first_row(first_rows, k, mask, batch, n, EQUAL)
    after = _first_row(first_rows, width - k, mask, batch, n, EQUAL)
    return offset + before + b * (width - k), offset + after + b * k + k


@triton.jit
def _parent_and_sibling(first_rows, offset, b, width, d, mask, side, batch, n, EQUAL: tl.constexpr):
    """The rows of a parent and of its other child, of width d; side is 0 if this span is the left child."""
    parent = offset + _first_row(first_rows, width + d, mask, batch, n, EQUAL) - b * d - tl.where(side == 0, 0, d)
    sibling = offset + _first_row(first_rows, d, mask, batch, n, EQUAL) + b * (width - d)
    return parent, sibling + tl.where(side == 0, width, -d)
