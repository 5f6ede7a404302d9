"""Contexts of operations: without automatic mixed precision, and on the GPU of their tensors."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_NOTHING = nullcontext()


def without_autocast(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a function compute in the precision of its arguments, also within ``torch.autocast``.

    Sums of products of probabilities need the range and the precision of their dtype. Where a lower precision is
    possible, the argument ``precision`` of an operation chooses it.
    """

    @wraps(function)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        enabled = [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]
        if not enabled:
            return function(*args, **kwargs)
        with ExitStack() as stack:
            for device in enabled:
                stack.enter_context(torch.autocast(device, enabled=False))
            return function(*args, **kwargs)

    return called


def launching(device: torch.device) -> AbstractContextManager[None]:
    """Return a context without automatic mixed precision, in which a GPU is the current one.

    ``precision`` says how products are computed, not autocast. Triton launches its kernels on the current GPU.
    """
    is_elsewhere = device.type == "cuda" and device.index != torch.cuda.current_device()
    return _launching(device) if is_elsewhere or torch.is_autocast_enabled(device.type) else _NOTHING


@contextmanager
def _launching(device: torch.device) -> Iterator[None]:
    on_device = torch.cuda.device(device) if device.type == "cuda" else _NOTHING
    with torch.autocast(device.type, enabled=False), on_device:
        yield
