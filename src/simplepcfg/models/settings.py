"""Settings of models: fields of configurations, each with its description for the page of keys, and base classes."""

from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

T = TypeVar("T")


def setting(default: T, description: str) -> T:
    """Return a field of a configuration with its default and its description."""
    return field(default=default, metadata={"description": description})


@dataclass(frozen=True, kw_only=True)
class KindConfig:
    """Base of all configurations of models."""

    # Pydantic reads this where it is installed, so that a misspelt key is an error.
    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    kind: str


@dataclass(frozen=True, kw_only=True)
class SymbolConfig(KindConfig):
    """Sizes of a model with nonterminals and preterminals."""

    nonterminals: int = setting(128, "Number of nonterminals, N.")
    preterminals: int = setting(256, "Number of preterminals, P.")
    embedding: int = setting(512, "Width of embeddings and networks.")
