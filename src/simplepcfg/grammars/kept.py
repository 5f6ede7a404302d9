"""Values that a grammar computes from its rules once, for all questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor

from simplepcfg.ops.snapshots import Snapshot

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """A value that is computed from tensors on first use, and again after one of them was changed in place.

    On a GPU, changes by way of ``tensor.data`` are not noticed, since torch does not count them. A copy or a pickle of
    it is empty, because these counts do not outlive the tensors.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: tuple[Snapshot, Value] | None = None

    def of(self, tensors: tuple[Tensor, ...], compute: Callable[[], Value]) -> Value:
        """Return the value for these tensors, which must be the same objects in every call."""
        if self._kept is None or not self._kept[0].is_of(*tensors):
            self._kept = Snapshot(*tensors), compute()
        return self._kept[1]

    def __bool__(self) -> bool:
        return self._kept is not None

    def __reduce__(self) -> tuple[type[Kept[Value]], tuple[()]]:
        return Kept, ()
