"""Modules on torch's meta device, without the seconds that drawing on it takes to import.

They have shapes and no numbers: to check weights, or to have weights assigned that were read from a file.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# Drawing on the meta device goes through torch's compiler, whose import takes longer than loading a model.
_DRAWS = frozenset({"normal_", "uniform_", "trunc_normal_", "bernoulli_", "zero_", "fill_"})


class _WithoutDraws(TorchFunctionMode):
    """Random and constant fills change nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if getattr(func, "__name__", "") in _DRAWS:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


@contextmanager
def without_memory() -> Iterator[None]:
    """Make tensors that are built inside have shapes and no numbers; they are in float32, as weights in files are."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("meta"), _WithoutDraws():
            yield
    finally:
        torch.set_default_dtype(default)
