"""Settings of models: fields with their description for the page of keys, base classes, checks, and tensor sizes."""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

from simplepcfg.errors import InputError

T = TypeVar("T")
# Keys that are standard deviations; whole numbers are counts or widths.
DEVIATIONS = ("init_logit_std", "init_emission_logit_std")
# A matrix with this many rows and columns fits no machine, so that a larger number is a mistake.
SIZE_LIMIT = 2**24


def setting(default: T, description: str) -> T:
    """Return a field of a configuration with its default and its description."""
    return field(default=default, metadata={"description": description})


@dataclass(frozen=True, kw_only=True)
class KindConfig:
    """Base of all configurations of models, which raises InputError for values that no model can have."""

    # Pydantic reads this where it is installed, so that a misspelt key is an error.
    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    # Whether sentences have trees; words of hidden Markov models have states alone.
    has_trees: ClassVar[bool] = True

    kind: str

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type is int:
                if value < 1:
                    raise InputError(f"model.{each.name} = {value}; it must be at least 1")
                if value >= SIZE_LIMIT:
                    raise InputError(f"model.{each.name} = {value}; it must be below {SIZE_LIMIT}")
            elif each.name in DEVIATIONS and not (value >= 0 and math.isfinite(value)):
                raise InputError(f"model.{each.name} = {value}; it must be finite and at least 0")
            elif get_origin(each.type) is Literal and value not in get_args(each.type):
                raise InputError(f"model.{each.name} = {value!r}; take {' or '.join(get_args(each.type))}")


@dataclass(frozen=True, kw_only=True)
class SymbolConfig(KindConfig):
    """Sizes of a model with nonterminals and preterminals."""

    nonterminals: int = setting(128, "Number of nonterminals, N.")
    preterminals: int = setting(256, "Number of preterminals, P.")
    embedding: int = setting(512, "Width of embeddings and networks.")
    init_logit_std: float = setting(
        0.0, "Initial standard deviation of the logits; 0 takes the authors' initialisation."
    )


@dataclass(frozen=True, kw_only=True)
class ResidualConfig(KindConfig):
    """Settings of a model that has the networks of its authors' program, or this package's residual networks."""

    networks: Literal["released", "residual"] = setting(
        "released", "`released`: those of the authors' program. `residual`: residual networks of this package."
    )
    rms_norm: bool = setting(
        False, "RMS normalisation of the networks' outputs, with learned gains; for model.networks = `residual`."
    )
    init_logit_std: float = setting(
        0.0,
        "Initial standard deviation of the logits, for model.networks = `residual`; 0 takes Xavier-normal embeddings.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rms_norm", "init_logit_std"):
            value = getattr(self, name)
            if value and self.released:
                raise InputError(
                    f"model.{name} = {str(value).lower()} is a setting of residual networks; set "
                    f"model.networks=residual, or leave model.{name} out"
                )

    @property
    def released(self) -> bool:
        """Whether the networks are those of the authors' program."""
        return self.networks == "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Numbers of elements (not bytes) of a model's tensors for a batch, and the keys that make them smaller."""

    activations: int  # inputs of the networks' layers, kept for the backward pass
    rules: int  # probabilities of all rules but emissions, of all sentences where each has its own
    rule_gradient: bool = True  # whether a bf16 step on a GPU stores it; not if `loss` calls `inside_of_features`
    tags: int  # preterminals or states, which emit words
    emission_tables: int = 1  # number of sentences in the batch, where each has its own emissions
    span_numbers: int = 0  # elements of a span in one copy of the chart: N, or the ranks
    word_numbers: int = 0  # the same of a word, beside those of spans; 0 for a simple PCFG
    full_precision: bool = False  # whether rules and chart are float32 whatever the run's precision
    weight_keys: str = "model.embedding"
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
