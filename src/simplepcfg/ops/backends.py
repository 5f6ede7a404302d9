"""Choice of a backend: the named one if it can run on the given tensors, or the fastest one for their device."""

import os
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor

from simplepcfg.errors import InputError

# Backends that launch Triton kernels.
KERNELS = ("triton",)


def resolve_backend(backend: str, like: Tensor, known: Iterable[str]) -> str:
    """Return the backend to use: the named one of ``known``, or with "auto" the fastest on the device of ``like``.

    Raises InputError if the name is unknown, or if the backend cannot run on that device.
    """
    if backend == "auto":
        return default_backend(like)
    if backend not in known:
        raise InputError(f"backend {backend!r} is unknown; take one of auto, {', '.join(known)}")
    check_kernels(backend, like)
    return backend


def check_kernels(backend: str, like: Tensor) -> None:
    """Raise InputError if the backend launches Triton kernels that cannot run on the device of ``like``."""
    if backend not in KERNELS:
        return
    if not has_triton():
        raise InputError(f"backend {backend!r} needs Triton, which is not installed; take backend='auto'")
    # Tests make Triton run its kernels in its interpreter on the CPU.
    interpreted = os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "y", "on")
    if not (like.is_cuda or interpreted):
        raise InputError(
            f"backend {backend!r} needs a CUDA GPU but the tensors are on {like.device}; take backend='auto', or move "
            "them to a GPU"
        )


@lru_cache(maxsize=16)
def multiprocessors(device: torch.device) -> int:
    """Return the number of multiprocessors of a GPU; 1 in Triton's interpreter."""
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def default_backend(log_emissions: Tensor) -> str:
    """Return the fastest backend on the device of ``log_emissions``."""
    return "triton" if log_emissions.is_cuda and has_triton() else "torch"


@cache
def has_triton() -> bool:
    """Return whether Triton is installed."""
    return find_spec("triton") is not None
