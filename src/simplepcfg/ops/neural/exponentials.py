"""Powers of a matrix product by kernels of our own: on a GPU a product, a softmax and its scores in one pass."""

import torch
from torch import Tensor

from simplepcfg.ops.products import row_parts

# Rows and columns of a tile, and the features that are multiplied at a time: two programs share a multiprocessor, so
# that one takes powers while the other multiplies.
TILE = (128, 128, 64)
PROGRAMS = 256
# A row's powers are relative to the largest of so many first scores. Where they add up to more than this, which leaves
# room for products with them and with their inverse, the row is made again relative to its largest score.
FIRST_SCORES = 32
LARGEST_TOTAL = 2.0**90
# Into so many parts at most each row that is made again is divided: there are few such rows, and a GPU to fill.
PARTS_AGAIN = 64
ROWS_LISTED, ROWS_SETTLED = 4096, 128  # at a time
MOST_NUMBERS = 2**31 - 1


def powers_of_product(a: Tensor, b: Tensor, out: Tensor | None) -> tuple[Tensor, Tensor]:
    """log Σ exp(a bᵀ) by rows and 1 / Σ out, [n] each, of bfloat16 a [n, D] and b [V, D] on a GPU.

    ``out`` [n, V] becomes exp(a bᵀ) times a factor for each row: times 1 / Σ out it is the softmax. Whoever multiplies
    with it can scale the rows of something smaller instead.
    """
    import triton

    from simplepcfg.ops.neural import exponential_kernels as kernels

    (count, width), words = a.shape, b.shape[0]
    if count > MOST_NUMBERS // width:  # kernels count places in 32 bits
        parts = row_parts(count, MOST_NUMBERS // width, TILE[0])
        found = [powers_of_product(a[part], b, None if out is None else out[part]) for part in parts]
        log_sums, factors = (torch.cat(each) for each in zip(*found, strict=True))
        return log_sums, factors
    rows, columns, features = TILE
    blocks, tiles = triton.cdiv(count, rows), triton.cdiv(words, columns)
    split = max(1, min(tiles, PROGRAMS // blocks))
    parts_again = min(triton.cdiv(tiles, 2), PARTS_AGAIN)

    def numbers(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(size, dtype=dtype, device=a.device)

    shifts, log_sums, factors = numbers(count), numbers(count), numbers(count)
    totals, highest, again = numbers(split, count), numbers(split, count), numbers(parts_again, count)
    far, far_count = numbers(count, dtype=torch.int32), numbers(1, dtype=torch.int32)
    target, stride = (a, 0) if out is None else (out, out.stride(0))
    shape = {
        "SPLIT": split, "HAS_OUT": out is not None, "EVEN": width % features == 0, "WIDE": not a.is_cuda,
        "BM": rows, "BN": columns, "BK": features, "num_warps": 4, "num_stages": 3,
    }  # fmt: skip
    kernels.powers_kernel[(blocks * split,)](
        a, b, target, shifts, totals, highest, count, words, width, stride, FIRST=FIRST_SCORES, **shape
    )
    kernels.far_rows_kernel[(1,)](
        totals, far, far_count, count, LARGEST_TOTAL, SPLIT=split, SIZE=ROWS_LISTED, num_warps=16
    )
    kernels.powers_again_kernel[(blocks * parts_again,)](
        a, b, target, highest, far, far_count, again, count, words, width, stride, PARTS=parts_again, **shape
    )
    kernels.settle_powers_kernel[(triton.cdiv(count, ROWS_SETTLED),)](
        shifts, totals, highest, again, log_sums, factors, count, LARGEST_TOTAL,
        SPLIT=split, PARTS=parts_again, SIZE=ROWS_SETTLED,
    )  # fmt: skip
    return log_sums, factors
