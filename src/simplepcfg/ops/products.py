"""Matrix products as each precision makes them: what is multiplied may be narrow, what is summed never is."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.backends import has_triton

PRECISIONS = (None, "bf16", "tf32", "fp32")
# A row begins where tensor cores and bulk copies want it, whatever the number of columns.
ROW_ALIGNMENT = 64


def check_precision(precision: str | None) -> None:
    """Name an unknown precision."""
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is unknown; take one of bf16, tf32, fp32")


def runs_fused(precision: str | None, tensor: Tensor) -> bool:
    """Whether operands are stored in bfloat16 and kernels do the rest: on a GPU, where that was asked for."""
    return precision == "bf16" and tensor.is_cuda and tensor.dtype != torch.float64 and has_triton()


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """What operands of a type are summed in."""
    return torch.promote_types(dtype, torch.float32)


@contextmanager
def matrix_mode(precision: str | None, device: torch.device) -> Iterator[None]:
    """How float32 products are made here: in TF32 on a GPU or bfloat16 on a CPU where asked for, else exactly.

    On a CPU bfloat16 means that operands are rounded within the product; sums and results stay float32. Where the
    processor has no instructions for it, nothing changes.
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
    """out = a @ b, summed and written in the type of ``out``, which may be wider than that of a and b."""
    if a.dtype == out.dtype:
        return torch.mm(a, b, out=out)
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=out.dtype, out=out)
    return torch.mm(a.to(out.dtype), b.to(out.dtype), out=out)


def bmm_wide(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """``mm_wide`` of a batch: [B, M, K] and [B, K, N] to [B, M, N]."""
    if a.dtype == out.dtype:
        return torch.bmm(a, b, out=out)
    if a.is_cuda:
        return torch.bmm(a, b, out_dtype=out.dtype, out=out)
    return torch.bmm(a.to(out.dtype), b.to(out.dtype), out=out)


def matmul_wide(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """``mm_wide``, or ``bmm_wide`` where there is a batch."""
    return mm_wide(a, b, out) if a.dim() == 2 else bmm_wide(a, b, out)


def add_mm_wide(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """total += a @ b, summed in the type of ``total``."""
    if a.dtype == total.dtype:
        return total.addmm_(a, b)
    if a.is_cuda:
        return torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    return total.addmm_(a.to(total.dtype), b.to(total.dtype))


def aligned_rows(like: Tensor, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Uninitialised [rows, columns] on the device of ``like``; on a GPU every row is aligned.

    On a CPU rows follow each other: libraries for ARM multiply into rows with gaps at half the speed.
    """
    stride = -(-columns // ROW_ALIGNMENT) * ROW_ALIGNMENT if like.is_cuda else columns
    return torch.empty(rows, stride, dtype=dtype, device=like.device)[:, :columns]


def row_parts(rows: int, most: int, multiple: int = 1) -> list[slice]:
    """Few, nearly equal slices of at most ``most`` rows, the starts multiples of ``multiple``."""
    count = -(-rows // max(most, 1))
    step = -(-rows // count)
    step = -(-step // multiple) * multiple
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
