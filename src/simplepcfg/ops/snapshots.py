"""Snapshots of tensors, by which values that were computed from them are known to be current."""

import torch
from torch import Tensor

MOST_EACH_WAY = 32  # rows, columns and so on of a sample


class Snapshot:
    """What shows that tensors were changed in place, or that others took their place.

    Torch counts changes in place, but not those through ``.data``, through NumPy, or of tensors that were made in
    inference mode. On a CPU a sample of the numbers is therefore compared, too: all of a small tensor, 32 rows and
    columns or a few more of a large one, and all sums of its columns where nothing is counted. A GPU would have to be
    waited for, which a captured CUDA graph does not allow.
    """

    __slots__ = ("_facts", "_samples")

    def __init__(self, *tensors: Tensor) -> None:
        self._facts, self._samples = _facts(tensors), [_sample(tensor) for tensor in tensors]

    def is_of(self, *tensors: Tensor) -> bool:
        """Return whether these are the same tensors, as far as can be told, in the same order."""
        return self._facts == _facts(tensors) and all(map(torch.equal, self._samples, map(_sample, tensors)))


def _facts(tensors: tuple[Tensor, ...]) -> list[tuple[object, ...]]:
    return [
        (None if tensor.is_inference() else tensor._version, tensor.dtype, tensor.device, tensor.shape)
        for tensor in tensors
    ]


def _sample(tensor: Tensor) -> Tensor:
    """Return some of the numbers, evenly spaced, as a tensor of its own."""
    if tensor.device.type != "cpu":
        return torch.empty(0)
    whole = tensor.detach()
    part = whole[tuple(slice(None, None, max(1, size // MOST_EACH_WAY)) for size in whole.shape)]
    if not tensor.is_inference() or part.numel() == whole.numel():
        return part.clone()
    return torch.cat([part.flatten(), whole.flatten(0, -2).sum(0) if whole.dim() > 1 else whole])
