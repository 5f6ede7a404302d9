"""Which backend answers: the one that was named, if it can run here, or the fastest for where the tensors lie."""

import os
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec

from torch import Tensor

from simplepcfg.errors import InputError

# Backends that launch kernels of Triton.
KERNELS = ("triton", "paper", "paper_recompute")


def chosen_backend(backend: str, like: Tensor, known: Iterable[str]) -> str:
    """``backend``, or the fastest where it is "auto"; InputError where it is unknown or cannot run on these tensors."""
    if backend == "auto":
        return default_backend(like)
    if backend not in known:
        raise InputError(f"backend {backend!r} is unknown; take one of auto, {', '.join(known)}")
    check_kernels(backend, like)
    return backend


def check_kernels(backend: str, like: Tensor) -> None:
    """InputError where a backend's kernels have nothing to run on."""
    if backend not in KERNELS:
        return
    if not has_triton():
        raise InputError(f"backend {backend!r} needs Triton, which is not installed; take backend='auto'")
    if not (like.is_cuda or _interpreted()):
        raise InputError(
            f"backend {backend!r} needs a CUDA GPU but the tensors are on {like.device}; take backend='auto', or move "
            "them to a GPU"
        )


def default_backend(log_emissions: Tensor) -> str:
    """The fastest backend for where the tensors lie."""
    return "triton" if log_emissions.is_cuda and has_triton() else "torch"


@cache
def has_triton() -> bool:
    """Whether kernels can be launched at all."""
    return find_spec("triton") is not None


def _interpreted() -> bool:
    """Whether Triton was told to run its kernels on the CPU, as tests do."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "y", "on")
