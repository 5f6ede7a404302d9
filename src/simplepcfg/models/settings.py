"""Settings of models: fields with their description for the page of keys, base classes, checks, and tensor sizes."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from simplepcfg.errors import InputError

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Numbers of elements (not bytes) of a model's tensors for a batch, and the keys that make them smaller."""

    activations: int  # inputs of the networks' layers, kept for the backward pass
    rules: int  # probabilities of all rules but emissions, of all sentences where each has its own
    rule_gradient: bool = True  # whether a step in bf16 on a GPU holds the gradient by all rules at once
    tags: int  # preterminals or states, which emit words
    emission_tables: int = 1  # number of sentences in the batch, where each has its own emissions
    span_numbers: int = 0  # elements of a span in one copy of the chart: N, or the ranks
    word_numbers: int = 0  # elements of a word in one copy of the chart
    full_precision: bool = False  # whether rules and chart are float32 whatever the run's precision
    network_keys: str = "model.embedding or model.nonterminals"
    rule_keys: str = "model.nonterminals and model.preterminals"
    tag_keys: str = "model.preterminals"

    def divided(self, shards: int) -> "ModelSizes":
        """Return the sizes of one of so many processes that share the symbols."""
        if shards == 1:
            return self
        names = ("activations", "rules", "tags", "span_numbers", "word_numbers")
        parts: dict[str, Any] = {name: -(-getattr(self, name) // shards) for name in names}
        return replace(self, rule_gradient=True, **parts)


# A matrix with this many rows and columns fits no machine, so that a larger number is a mistake.
SIZE_LIMIT = 2**24


def check_sizes(config: object, *names: str) -> None:
    """Raise InputError if a count or width of these names is below 1 or above every plausible size."""
    for name in names:
        value = getattr(config, name)
        if value < 1:
            raise InputError(f"model.{name} = {value}; it must be at least 1")
        if value >= SIZE_LIMIT:
            raise InputError(f"model.{name} = {value}; it must be below {SIZE_LIMIT}")


def check_deviation(config: object, name: str = "init_logit_std") -> None:
    """Raise InputError if a standard deviation is negative or not finite."""
    value = getattr(config, name)
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(f"model.{name} = {value}; it must be finite and at least 0")


def check_choice(config: object, name: str, choices: tuple[str, ...]) -> None:
    """Raise InputError if a value is none of the choices."""
    value = getattr(config, name)
    if value not in choices:
        raise InputError(f"model.{name} = {value!r}; take {' or '.join(choices)}")


def check_networks(config: Any) -> None:
    """Raise InputError for unknown `networks`, or for settings of residual networks where `networks` is "released"."""
    check_choice(config, "networks", ("released", "residual"))
    if config.networks == "residual":
        return
    for name in ("rms_norm", "init_logit_std"):
        value = getattr(config, name)
        if value:
            raise InputError(
                f"model.{name} = {str(value).lower()} is a setting of residual networks; set model.networks=residual, "
                f"or leave model.{name} out"
            )


def check_vocabulary(size: int) -> None:
    """Raise InputError if a vocabulary does not hold padding, id 0, and at least one word."""
    if size < 2:
        raise InputError(f"vocabulary_size = {size}; it must hold padding and at least one word")
