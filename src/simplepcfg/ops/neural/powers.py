"""Powers of a matrix product by kernels of our own: on a card a product, a softmax and its scores in one pass."""

import torch
from torch import Tensor

from simplepcfg.ops.neural.products import row_parts

# Rows and columns of a tile, and the features that are multiplied at a time: two programs share a multiprocessor, so
# that one takes powers while the other multiplies.
TILE = (128, 128, 64)
PROGRAMS = 256
# A row's powers are relative to the largest of so many first scores. Where they add up to more than this, which leaves
# room for products with them and with their inverse, the row is made again relative to its largest score.
FIRST_SCORES = 32
LARGEST_TOTAL = 2.0**90
MOST_NUMBERS = 2**31 - 1


def powers_of_product(a: Tensor, b: Tensor, out: Tensor | None) -> tuple[Tensor, Tensor]:
    """log Σ exp(a bᵀ) by rows and 1 / Σ out, [n] each, of bfloat16 a [n, D] and b [V, D] on a card.

    ``out`` [n, V] becomes exp(a bᵀ) times a factor for each row: times 1 / Σ out it is the softmax. Whoever multiplies
    with it can scale the rows of something smaller instead.
    """
    import triton

    from simplepcfg.ops.neural.power_kernels import powers_kernel, settle_powers_kernel

    (count, width), words = a.shape, b.shape[0]
    if count > MOST_NUMBERS // width:  # kernels count places in 32 bits
        parts = row_parts(count, MOST_NUMBERS // width, TILE[0])
        found = [powers_of_product(a[part], b, None if out is None else out[part]) for part in parts]
        log_sums, factors = (torch.cat(each) for each in zip(*found, strict=True))
        return log_sums, factors
    rows, columns, features = TILE
    blocks = triton.cdiv(count, rows)
    split = max(1, min(triton.cdiv(words, columns), PROGRAMS // blocks))
    tops, totals = (torch.empty(size, dtype=torch.float32, device=a.device) for size in ((count,), (split, count)))
    log_sums, factors = torch.empty_like(tops), torch.empty_like(tops)
    target, stride = (a, 0) if out is None else (out, out.stride(0))
    shape = {
        "SPLIT": split, "HAS_OUT": out is not None, "EVEN": width % features == 0, "WIDE": not a.is_cuda,
        "BM": rows, "BN": columns, "BK": features, "num_warps": 4, "num_stages": 3,
    }  # fmt: skip
    powers_kernel[(blocks * split,)](
        a, b, target, tops, totals, count, words, width, stride, FIRST=FIRST_SCORES, **shape
    )
    settle_powers_kernel[(blocks,)](
        a, b, target, tops, totals, log_sums, factors, count, words, width, stride, LARGEST_TOTAL, **shape
    )
    return log_sums, factors
