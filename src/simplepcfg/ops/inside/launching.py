"""The context in which the kernels of a chart are launched."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

_NOTHING = nullcontext()


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
