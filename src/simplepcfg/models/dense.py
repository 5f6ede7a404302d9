"""Base configuration of models with a dense rule tensor."""

from dataclasses import dataclass

from simplepcfg.models.checks import check_deviation, check_sizes
from simplepcfg.models.settings import SymbolConfig, setting
from simplepcfg.models.sizes import ModelSizes

# Rules and their gradients are held twice: as one tensor, and in the blocks that matrix products read.
RULE_COPIES = 2
BLOCKS = 2  # residual blocks of the networks of root and emissions


@dataclass(frozen=True, kw_only=True)
class DensePCFGConfig(SymbolConfig):
    """Sizes of a model with one probability for every rule A → B C."""

    nonterminals: int = setting(30, "Number of nonterminals, N.")
    preterminals: int = setting(60, "Number of preterminals, P.")
    embedding: int = setting(256, "Width of embeddings and networks.")
    init_logit_std: float = setting(
        0.0,
        "Initial standard deviation of the logits; 0 takes the authors' initialisation.",
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
