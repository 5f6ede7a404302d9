"""Listing of all configuration keys, for the reference page and for suggestions in error messages."""

import dataclasses
import difflib
import types
from collections.abc import Iterator
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from simplepcfg.models import KINDS
from simplepcfg.runs.config.schema import RunConfig


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One key of a configuration file."""

    name: str  # dotted, as in training.epochs
    annotation: object
    default: object
    description: str
    limits: tuple[object, ...]
    owner: type


def all_keys(table: type = RunConfig, prefix: str = "") -> Iterator[Key]:
    """Yield every leaf key below `table`, in the order of the code; the variants of a union follow one another."""
    for key in _keys_of(table, prefix):
        inner = table_types(key.annotation)
        if not inner:
            yield key
        for variant in inner:
            yield from all_keys(variant, key.name + ".")


def table_types(annotation: object) -> list[type]:
    """Return the table classes of an annotation: none for a plain value, several for a union of tables."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType):
        return [table for part in get_args(annotation) for table in table_types(part)]
    if hasattr(annotation, "__metadata__"):
        return table_types(get_args(annotation)[0])
    return []


def nearest_key(unknown: str, kind: str | None = None) -> str | None:
    """Return the valid dotted key that was most likely meant, or the table, or None.

    If `kind` is given, only the model keys of this kind are candidates.
    """
    others = {config for name, config in KINDS.items() if kind is not None and name != kind}
    valid = sorted({key.name for key in all_keys() if key.owner not in others})
    table, _, leaf = unknown.rpartition(".")
    siblings = {name.rpartition(".")[2]: name for name in valid if name.rpartition(".")[0] == table}
    tables = {key.rpartition(".")[0] for key in valid if "." in key and not table}
    for candidates, word in (
        ({name: name for name in tables}, unknown),
        (siblings, leaf),
        ({name.rpartition(".")[2]: name for name in valid}, leaf),
        # In an existing table the common prefix would make every key similar.
        ({} if siblings else {name: name for name in valid}, unknown),
    ):
        matches = difflib.get_close_matches(word, candidates, n=1, cutoff=0.75)
        if matches:
            return candidates[matches[0]]
    return None


def _keys_of(table: type, prefix: str) -> Iterator[Key]:
    """Yield the keys of one table: a pydantic model or, for models, a plain dataclass."""
    if issubclass(table, BaseModel):
        for name, field in table.model_fields.items():
            default, limits = field.get_default(call_default_factory=True), tuple(field.metadata)
            yield Key(prefix + name, field.annotation, default, field.description or "", limits, table)
        return
    hints = get_type_hints(table, include_extras=True)
    for item in dataclasses.fields(cast(Any, table)):
        yield Key(prefix + item.name, hints[item.name], item.default, item.metadata.get("description", ""), (), table)
