"""Device and precision of a run, and torch's settings for fast and bit-for-bit reproducible training."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral

import torch
from torch import nn

from simplepcfg.errors import InputError

ALLOCATOR_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def resolve_device(name: str = "auto") -> torch.device:
    """Return the device of this name; "auto" is a CUDA GPU if there is one, else the CPU.

    Raises InputError for a device that is unknown or not there.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InputError(f'device "{name}" is unknown; use auto, cpu, cuda or cuda:0') from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise InputError(f'device "{name}": torch sees no CUDA GPU here; use device cpu')
        if device.index is not None and device.index >= torch.cuda.device_count():
            raise InputError(f'device "{name}": there are only {torch.cuda.device_count()} GPUs; count from 0')
    elif device.type != "cpu":
        raise InputError(f'device "{name}" is not supported; use auto, cpu, cuda or cuda:0')
    return device


def seeded(device: torch.device, seed: int) -> torch.Generator:
    """Return a new generator on `device` with this seed."""
    import torch._prims.rng_prims  # torch.Generator needs it, and the command line starts without it.

    if not isinstance(seed, Integral) or not 0 <= seed < 2**63:
        raise InputError(f"seed = {seed}; give one from 0 to 2^63 - 1")
    return torch.Generator(device).manual_seed(int(seed))


def chosen_precision(precision: str, device: torch.device) -> str:
    """Return the training precision; "auto" is bf16 on a GPU and fp32 on a CPU."""
    if precision != "auto":
        return precision
    return "bf16" if device.type == "cuda" else "fp32"


def validation_precision(precision: str, device: torch.device) -> str | None:
    """Return the precision of matrix products in validation: "tf32" on a GPU that trains below fp32, else None.

    None stands for fp32. Rules and emissions are float32 either way.
    """
    return "tf32" if device.type == "cuda" and chosen_precision(precision, device) != "fp32" else None


def usable_cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_precision(model: nn.Module, precision: str, device: torch.device) -> None:
    """Set the precision that the model trains with; raise InputError for one that has no choice and is not fp32."""
    if hasattr(model, "precision"):
        model.precision = chosen_precision(precision, device)  # type: ignore[assignment]
    elif precision not in ("auto", "fp32"):
        raise InputError(f"training.precision = {precision}: this model has no choice of precision; use fp32")


@contextmanager
def subnormals_as_zero() -> Iterator[None]:
    """Compute with 0 in place of numbers below 2^-126 (2^-1022 in float64) on a CPU inside the context.

    Derivatives of improbable symbols are as small as that, no probability depends on them, and products with them take
    an x86 processor up to a hundred times as long. The setting belongs to this thread and to those that torch starts
    while it holds; threads that torch has started before keep theirs.
    """
    before = sys.float_info.min / 2 == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@contextmanager
def reproducible(device: torch.device, threads: int) -> Iterator[None]:
    """Make torch deterministic inside the context, on a CPU, and leave the caller's random state unchanged.

    `threads` is the number of CPU threads; 0 leaves it as it is.
    """
    previous = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
    )
    dtype = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            if threads:
                torch.set_num_threads(threads)
            if device.type == "cpu":  # On a GPU some deterministic algorithms are slow or missing.
                torch.use_deterministic_algorithms(True, warn_only=True)
                torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
            torch.set_default_dtype(torch.float32)  # in which weights are drawn
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(previous[0])
            torch.use_deterministic_algorithms(previous[1], warn_only=previous[2])
            torch.utils.deterministic.fill_uninitialized_memory = previous[3]  # type: ignore[attr-defined]


def use_expandable_segments(wanted: bool) -> None:
    """Switch torch's expandable segments for GPU memory on or off, unless the user has set the allocator up.

    Rules of many gigabytes are freed after each step; without expandable segments a small tensor that takes part of
    such a block leaves no room for them. Captured steps allocate from a memory pool of their own and do not need it.
    """
    change = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if change is not None and not any(os.environ.get(name) for name in ALLOCATOR_SETTINGS):
        change(f"expandable_segments:{wanted}")
