"""Charts that a backward pass will read, each kept alive by a small tensor that autograd saves.

Operators of ``torch.library`` take and return tensors only. The forward operator therefore returns a handle: a tensor
of one byte whose storage owns the chart. Whoever saves the handle keeps the chart, and the chart is freed with it:
after the backward pass, or when gradient checkpointing discards what was saved.
"""

from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor


class _Owner(np.ndarray):
    """The memory of a handle, which also refers to the chart."""

    chart: Any


# Owners by the address of their memory, which is unique as long as they live.
_owners: "WeakValueDictionary[int, _Owner]" = WeakValueDictionary()


def make_handle(chart: Any) -> Tensor:
    """Return a handle of the chart. Its value is always 0, so that it does not depend on earlier calls."""
    owner = np.zeros(1, np.uint8).view(_Owner)
    owner.chart = chart
    handle = torch.from_numpy(owner)  # the storage refers to the array that it was made from
    _owners[handle.data_ptr()] = owner
    return handle


def empty_handle() -> Tensor:
    """Return a handle of no chart."""
    return torch.zeros(1, dtype=torch.uint8)


def chart_of(handle: Tensor) -> Any | None:
    """Return the chart of a handle, or None if the tensor is a copy of a handle, which does not own the chart."""
    owner = _owners.get(handle.data_ptr()) if handle.device.type == "cpu" else None
    return None if owner is None else owner.chart
