"""A grammar with all its numbers in float64: for the few questions that float32 has no range for."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor


def in_float64(grammar: Any) -> Any:
    """The same grammar, of whichever family, in float64; products are made in it too, whatever its precision was."""
    changed = {
        field.name: _doubled(field.name, getattr(grammar, field.name)) for field in fields(grammar) if field.init
    }
    return replace(grammar, **changed)


def bytes_in_float64(grammar: Any) -> int:
    """Memory for that."""
    given = (getattr(grammar, field.name) for field in fields(grammar) if field.init)
    return sum(_bytes(value) for value in given)


def _doubled(name: str, value: Any) -> Any:
    if name == "precision":
        return None
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, tuple):
        return tuple(_doubled(name, item) for item in value)
    return in_float64(value) if is_dataclass(value) else value


def _bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel() * torch.float64.itemsize
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    return bytes_in_float64(value) if is_dataclass(value) else 0
