"""Matrix products in each precision: operands may be bfloat16 or TF32, sums are in float32 or wider."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from simplepcfg.errors import InputError
from simplepcfg.ops.backends import has_triton

PRECISIONS = (None, "bf16", "tf32", "fp32")
# Rows begin at multiples of this many elements, the alignment that tensor cores and bulk copies require.
ROW_ALIGNMENT = 64
# Without MKL, torch.bmm on a CPU loops over the matrices: where they have fewer columns, multiply and sum is faster.
LEAST_BMM_COLUMNS = 0 if torch.backends.mkl.is_available() else 1024

# Share of the columns above which a dense product on a CPU takes less time than the sum of the chosen rows.
MOST_CHOSEN = 0.2


def check_precision(precision: str | None) -> None:
    """Raise InputError if the precision is unknown."""
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is unknown; take one of bf16, tf32, fp32")


def runs_fused(precision: str | None, tensor: Tensor) -> bool:
    """Return whether to store operands in bfloat16 and run fused kernels: if "bf16" was asked for on a GPU."""
    return precision == "bf16" and tensor.is_cuda and tensor.dtype != torch.float64 and has_triton()


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which operands of ``dtype`` are summed: float32, or float64 for float64."""
    return torch.promote_types(dtype, torch.float32)


@contextmanager
def matrix_mode(precision: str | None, device: torch.device) -> Iterator[None]:
    """Set the precision of float32 matrix products within this context.

    "tf32" selects TF32 on a GPU. "bf16" on a CPU rounds operands to bfloat16 within the product, while sums and results
    stay float32; on a processor without bfloat16 instructions it has no effect. Otherwise products are in full float32.
    """
    if device.type == "cuda":
        settings = torch.backends.cuda.matmul
        before = settings.allow_tf32
        settings.allow_tf32 = precision == "tf32"
        try:
            yield
        finally:
            settings.allow_tf32 = before
    elif device.type == "cpu" and precision == "bf16":
        cpu = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
        mode = cpu.fp32_precision
        cpu.fp32_precision = "bf16"
        try:
            yield
        finally:
            cpu.fp32_precision = mode
    else:
        yield


def mm_wide(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """Compute ``a @ b`` of matrices, or of batches of them, into ``out``, summed in its dtype, which may be wider."""
    multiply = torch.mm if a.dim() == 2 else torch.bmm
    if a.dtype == out.dtype:
        return multiply(a, b, out=out)
    if a.is_cuda:
        return multiply(a, b, out_dtype=out.dtype, out=out)
    return multiply(a.to(out.dtype), b.to(out.dtype), out=out)


def add_mm_wide(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Add ``a @ b`` to ``total`` in place, summed in the dtype of ``total``."""
    if a.dtype == total.dtype:
        return total.addmm_(a, b)
    if a.is_cuda:
        return torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    return total.addmm_(a.to(total.dtype), b.to(total.dtype))


def weighted_sums(weights: Tensor, rows: Tensor) -> Tensor:
    """Compute Σ_k weights[…, k] · rows[…, k, :] of [*, K] and [*, K, X]: [*, X]. ``rows`` may be overwritten."""
    *outer, count, columns = rows.shape
    if rows.device.type == "cpu" and columns < LEAST_BMM_COLUMNS:
        return rows.mul_(weights.unsqueeze(-1)).sum(-2)
    return torch.bmm(weights.reshape(-1, 1, count), rows.view(-1, count, columns)).view(*outer, columns)


def put_rows(target: Tensor, places: Tensor, rows: Tensor) -> None:
    """Copy ``rows`` [R, X] to these places [R] among the rows of ``target``; NumPy does it in a third of the time."""
    if target.device.type == "cpu":
        target.numpy()[places.numpy()] = rows.numpy()
    else:
        target.index_copy_(0, places, rows)


def placed_products(values: Tensor, places: NDArray[np.int64], rules: Tensor) -> Tensor:
    """Compute the product of ``values`` [R, N], 0 except for ``places`` of their flat form, with ``rules`` [N, M]."""
    rows, columns = values.shape
    weights = values.numpy().ravel()[places]
    if len(places) > MOST_CHOSEN * values.numel():
        chosen = np.zeros((rows, columns), weights.dtype)
        chosen.ravel()[places] = weights
        return torch.from_numpy(chosen) @ rules
    first = np.searchsorted(places, np.arange(0, rows * columns, columns))
    column, offsets, weight = map(torch.from_numpy, (places % columns, first, weights))
    return embedding_bag(column, rules, offsets, mode="sum", per_sample_weights=weight)


def aligned_rows(like: Tensor, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Allocate an uninitialised [rows, columns] on the device of ``like``, with aligned rows on a GPU.

    On a CPU the result is contiguous: BLAS libraries for ARM write rows with gaps between them at half the speed.
    """
    stride = -(-columns // ROW_ALIGNMENT) * ROW_ALIGNMENT if like.is_cuda else columns
    return torch.empty(rows, stride, dtype=dtype, device=like.device)[:, :columns]


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is at least the number and at least 2."""
    return 1 << max(number - 1, 1).bit_length()


def row_parts(rows: int, most: int, multiple: int = 1) -> list[slice]:
    """Split ``rows`` into few, nearly equal slices of at most ``most`` rows that start at multiples of ``multiple``."""
    count = -(-rows // max(most, 1))
    step = -(-rows // count)
    step = -(-step // multiple) * multiple
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
