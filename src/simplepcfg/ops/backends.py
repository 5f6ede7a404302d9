"""Which backend answers where the caller names none."""

from functools import cache
from importlib.util import find_spec

from torch import Tensor


def default_backend(log_emissions: Tensor) -> str:
    """The fastest backend for where the tensors lie."""
    return "triton" if log_emissions.is_cuda and has_triton() else "torch"


@cache
def has_triton() -> bool:
    """Whether kernels can be launched at all."""
    return find_spec("triton") is not None
