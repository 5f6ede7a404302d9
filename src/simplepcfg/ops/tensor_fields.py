"""Dataclasses of tensors: copies with other tensors in their fields, and a text with their shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value")
Change = Callable[[Tensor], Tensor]


def with_tensors(value: Value, change: Change, **others: object) -> Value:
    """Copy a dataclass with a function applied to every tensor, alone or in a tuple; other fields as given."""
    given = fields(cast(Any, value))
    changed = {field.name: _changed(getattr(value, field.name), change) for field in given if field.init}
    return cast(Value, replace(cast(Any, value), **changed | others))


def in_float64(value: Value) -> Value:
    """Return the same grammar or arguments in float64; matrix products are then in float64 as well."""
    nested: dict[str, object] = {
        field.name: in_float64(part)
        for field in fields(cast(Any, value))
        if is_dataclass(part := getattr(value, field.name))
    }
    if hasattr(value, "precision"):
        nested["precision"] = None
    return with_tensors(value, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, **nested)


def bytes_in_float64(value: object) -> int:
    """Compute the memory that the tensors of ``in_float64(value)`` take, in bytes."""
    if isinstance(value, Tensor):
        return value.numel() * torch.float64.itemsize
    if isinstance(value, tuple):
        return sum(map(bytes_in_float64, value))
    if not is_dataclass(value):
        return 0
    return sum(bytes_in_float64(getattr(value, field.name)) for field in fields(value) if field.init)


def _changed(value: object, change: Change) -> object:
    if isinstance(value, Tensor):
        return change(value)
    return tuple(_changed(part, change) for part in value) if isinstance(value, tuple) else value


def described(value: DataclassInstance) -> str:
    """Return a dataclass as text: its fields, and tensors as their shapes.

    >>> import torch
    >>> from simplepcfg.grammars import DenseEmissions
    >>> DenseEmissions(torch.zeros(3, 5))
    DenseEmissions(log_emit=[3, 5])
    """
    parts = ((field.name, getattr(value, field.name)) for field in fields(value) if field.repr)
    return f"{type(value).__name__}({', '.join(f'{name}={_short(part)}' for name, part in parts)})"


def _short(value: object) -> str:
    if isinstance(value, Tensor):
        return str(list(value.shape))
    if isinstance(value, tuple | list) and any(isinstance(each, Tensor) for each in value):
        return f"[{', '.join(map(_short, value))}]"
    return repr(value)
