"""Which device to compute on, and the settings of torch under which a run repeats bit for bit."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from simplepcfg.errors import InputError

ALLOCATOR_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def resolve_device(name: str = "auto") -> torch.device:
    """`auto` is a CUDA GPU if there is one; a device that is not there is an InputError."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f'device "{name}" is unknown; use auto, cpu, cuda or cuda:0') from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise InputError(f'device "{name}": torch sees no CUDA GPU here; use device cpu')
        if device.index is not None and device.index >= torch.cuda.device_count():
            raise InputError(f'device "{name}": there are only {torch.cuda.device_count()} GPUs; count from 0')
    elif device.type != "cpu":
        raise InputError(f'device "{name}" is not supported; use auto, cpu, cuda or cuda:0')
    return device


def chosen_precision(precision: str, device: torch.device) -> str:
    """`auto` is bf16 on a GPU and float32 elsewhere."""
    if precision != "auto":
        return precision
    return "bf16" if device.type == "cuda" else "fp32"


def validation_precision(precision: str, device: torch.device) -> str | None:
    """How charts are multiplied between epochs: in TF32 on a GPU that trains in less than float32; None is float32.

    Rules and emissions are float32 either way. What it changes in a perplexity is in docs/performance.md.
    """
    return "tf32" if device.type == "cuda" and chosen_precision(precision, device) != "fp32" else None


def set_precision(model: nn.Module, precision: str, device: torch.device) -> None:
    """Tell the model which arithmetic to train with."""
    precision = chosen_precision(precision, device)
    if hasattr(model, "precision"):
        model.precision = precision  # type: ignore[assignment]
    elif precision != "fp32":
        raise InputError(f"training.precision = {precision}: this model has no choice of precision; use fp32")


@contextmanager
def reproducible(device: torch.device, threads: int) -> Iterator[None]:
    """Inside, torch repeats itself where that is free, and draws nothing from the caller's random state."""
    previous = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
    )
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            if threads:
                torch.set_num_threads(threads)
            if device.type == "cpu":  # on a GPU some of these are slow or missing
                torch.use_deterministic_algorithms(True, warn_only=True)
                torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
            yield
        finally:
            torch.set_num_threads(previous[0])
            torch.use_deterministic_algorithms(previous[1], warn_only=previous[2])
            torch.utils.deterministic.fill_uninitialized_memory = previous[3]  # type: ignore[attr-defined]


def grow_memory_in_place(wanted: bool) -> None:
    """Whether a GPU's memory is to grow page by page instead of in blocks; a user's own settings are left alone.

    Rules of many gigabytes are freed after each step; a small tensor that then takes part of such a block leaves no
    room for them. Not for captured steps, whose memory torch keeps apart.
    """
    change = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if change is not None and not any(os.environ.get(name) for name in ALLOCATOR_SETTINGS):
        change(f"expandable_segments:{wanted}")
