"""The representation of grammars as text: shapes instead of thousands of numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def described(value: DataclassInstance) -> str:
    """Return a dataclass as text: its fields, and tensors as their shapes.

    >>> import torch
    >>> from simplepcfg.grammars import DenseEmissions
    >>> DenseEmissions(torch.zeros(3, 5))
    DenseEmissions(log_emit=[3, 5])
    """
    parts = ((field.name, getattr(value, field.name)) for field in fields(value) if field.repr)
    shown = (f"{name}={list(part.shape) if isinstance(part, Tensor) else _short(part)}" for name, part in parts)
    return f"{type(value).__name__}({', '.join(shown)})"


def _short(value: object) -> str:
    if isinstance(value, tuple | list) and any(isinstance(each, Tensor) for each in value):
        return f"[{', '.join(str(list(each.shape)) for each in value)}]"
    return repr(value)
