"""Contexts of operations: without modes that the caller has set, and on the GPU of their tensors."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import wraps
from inspect import isfunction
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Class = TypeVar("Class", bound=type)
_NOTHING = nullcontext()


def without_modes(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a function independent of ``torch.autocast`` and of ``torch.set_default_device``.

    Sums of products of probabilities need the range and the precision of their dtype. Where a lower precision is
    possible, the argument ``precision`` of an operation chooses it. Tensors without a device of their own are on the
    CPU.
    """

    @wraps(function)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        enabled = [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]
        elsewhere = torch.get_default_device().type != "cpu"
        if not enabled and not elsewhere:
            return function(*args, **kwargs)
        with ExitStack() as stack:
            for device in enabled:
                stack.enter_context(torch.autocast(device, enabled=False))
            if elsewhere:
                stack.enter_context(torch.device("cpu"))
            return function(*args, **kwargs)

    return called


def methods_without_modes(cls: Class) -> Class:
    """Decorate every public method of a class by ``without_modes``."""
    for name, method in list(vars(cls).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(cls, name, without_modes(method))
    return cls


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
