"""Operations that automatic mixed precision does not reach."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


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
