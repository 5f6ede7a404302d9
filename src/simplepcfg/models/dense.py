"""Base configuration of models with a dense rule tensor."""

from dataclasses import dataclass, field
from typing import ClassVar

from simplepcfg.models.checks import check_deviation, check_sizes
from simplepcfg.models.sizes import ModelSizes

# Rules and their gradients are held twice: as one tensor, and in the blocks that matrix products read.
RULE_COPIES = 2
BLOCKS = 2  # residual blocks of the networks of root and emissions


@dataclass(frozen=True, kw_only=True)
class DensePCFGConfig:
    """Sizes of a model with one probability for every rule A → B C."""

    # Pydantic reads this where it is installed, so that a misspelt key is an error.
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: str
    nonterminals: int = field(default=30, metadata={"description": "Number of nonterminal symbols, N."})
    preterminals: int = field(default=60, metadata={"description": "Number of preterminal symbols, P."})
    embedding: int = field(
        default=256, metadata={"description": "Width of symbol and word embeddings and of the networks."}
    )
    init_logit_std: float = field(
        default=0.0,
        metadata={
            "description": "Initial standard deviation of the rule logits; 0 takes the authors' Xavier-uniform "
            "weights, whose logits are all near 0."
        },
    )

    def __post_init__(self) -> None:
        check_sizes(self, "nonterminals", "preterminals", "embedding")
        check_deviation(self)

    def sizes_of(self, grammars: int) -> ModelSizes:
        """Return the tensor sizes of a batch with the rules and emissions of so many grammars."""
        states, tags = self.nonterminals, self.preterminals
        layers = 1 + 3 * BLOCKS
        return ModelSizes(
            activations=grammars * (1 + tags) * self.embedding * layers,
            rules=RULE_COPIES * grammars * states * (states + tags) ** 2,
            tags=tags,
            emission_tables=grammars,
            span_numbers=states,
            word_numbers=states**2,  # matrices over parent and sibling of each word
            full_precision=True,
        )
