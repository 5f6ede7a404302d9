"""Unnormalised exponentials of a matrix product, exp(a bᵀ − shift), computed on a GPU without storing a bᵀ."""

import torch
from torch import Tensor

from simplepcfg.ops.products import row_parts

# Rows and columns of a tile, and the features that are multiplied at a time. Two programs of this size fit on one
# multiprocessor, so that one computes exponentials while the other multiplies.
TILE = (128, 128, 64)
PROGRAMS = 256
# The exponentials of a row are relative to the maximum of its first FIRST_LOGITS logits. If they sum to LARGEST_TOTAL
# or more, the row is recomputed relative to its largest logit. This limit leaves room for products with the
# exponentials and with the inverse of their sum.
FIRST_LOGITS = 32
LARGEST_TOTAL = 2.0**90
# The columns of each recomputed row are divided among up to so many programs: there are few such rows, on a whole GPU.
RECOMPUTED_PARTS = 64
ROWS_LISTED, ROWS_FINISHED = 4096, 128  # rows that one program processes at a time
MOST_NUMBERS = 2**31 - 1


def exponentials_of_product(
    a: Tensor, b: Tensor, out: Tensor | None, left_out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute log Σ exp(a bᵀ) of each row, and exp(a bᵀ) up to a factor for each row, on a GPU.

    ``a`` and ``b`` are ``[n, D]`` and ``[V, D]`` in bfloat16. ``out`` ``[n, V]``, if given, is filled with exp(logit −
    shift), where the shift depends on the row, and with 0 in the columns whose ``left_out``, int8 ``[V]``, is 1.
    Returns ``(log_sums, factors)``, ``[n]`` each: the factor is 1 / Σ exp(logit − shift) over all columns, and ``out``
    times the factor of its row the softmax. The caller can apply the factors to a smaller matrix that is multiplied
    with ``out``.
    """
    import triton

    from simplepcfg.ops.neural import exponential_kernels as kernels

    (count, width), words = a.shape, b.shape[0]
    if count > MOST_NUMBERS // width:  # kernels compute offsets in 32 bits
        parts = row_parts(count, MOST_NUMBERS // width, TILE[0])
        results = [exponentials_of_product(a[part], b, None if out is None else out[part], left_out) for part in parts]
        log_sums, factors = (torch.cat(each) for each in zip(*results, strict=True))
        return log_sums, factors
    rows, columns, features = TILE
    blocks, tiles = triton.cdiv(count, rows), triton.cdiv(words, columns)
    split = max(1, min(tiles, PROGRAMS // blocks))
    recomputed_parts = min(triton.cdiv(tiles, 2), RECOMPUTED_PARTS)

    def numbers(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(size, dtype=dtype, device=a.device)

    shifts, log_sums, factors = numbers(count), numbers(count), numbers(count)
    totals, highest, recomputed = numbers(split, count), numbers(split, count), numbers(recomputed_parts, count)
    overflowed, overflowed_count = numbers(count, dtype=torch.int32), numbers(1, dtype=torch.int32)
    target, stride = (a, 0) if out is None else (out, out.stride(0))
    columns_left_out = a if left_out is None else left_out
    shape = {
        "SPLIT": split, "HAS_OUT": out is not None, "LEAVES_OUT": left_out is not None,
        "EVEN": width % features == 0, "WIDE": not a.is_cuda,
        "BM": rows, "BN": columns, "BK": features, "num_warps": 4, "num_stages": 3,
    }  # fmt: skip
    kernels.exponentials_kernel[(blocks * split,)](
        a, b, target, columns_left_out, shifts, totals, highest, count, words, width, stride, FIRST=FIRST_LOGITS,
        **shape,
    )  # fmt: skip
    kernels.list_overflowed_rows_kernel[(1,)](
        totals, overflowed, overflowed_count, count, LARGEST_TOTAL, SPLIT=split, SIZE=ROWS_LISTED, num_warps=16
    )
    kernels.recompute_rows_kernel[(blocks * recomputed_parts,)](
        a, b, target, columns_left_out, highest, overflowed, overflowed_count, recomputed, count, words, width, stride,
        PARTS=recomputed_parts, **shape,
    )  # fmt: skip
    kernels.finish_rows_kernel[(triton.cdiv(count, ROWS_FINISHED),)](
        shifts, totals, highest, recomputed, log_sums, factors, count, LARGEST_TOTAL,
        SPLIT=split, PARTS=recomputed_parts, SIZE=ROWS_FINISHED,
    )  # fmt: skip
    return log_sums, factors
