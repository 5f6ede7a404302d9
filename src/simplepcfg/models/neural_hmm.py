"""A hidden Markov model whose start, transition and emission probabilities come from state embeddings."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from simplepcfg.errors import InputError
from simplepcfg.models.checks import check_blocks, check_sizes
from simplepcfg.models.sizes import ModelSizes


@dataclass(frozen=True, kw_only=True)
class NeuralHMMConfig:
    """Sizes of a neural HMM."""

    # Read by pydantic where it is installed: a misspelt key is an error, not ignored.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    kind: Literal["hmm"] = field(default="hmm", metadata={"description": "Which model."})
    states: int = field(default=4096, metadata={"description": "Number of hidden states."})
    embedding: int = field(
        default=512, metadata={"description": "Width of state and word embeddings and of the networks."}
    )
    residual_blocks: int = field(default=2, metadata={"description": "Residual blocks in each of the networks."})

    def __post_init__(self) -> None:
        check_sizes(self, "states", "embedding")
        check_blocks(self)

    def sizes(self, batch: int) -> ModelSizes:
        """What a batch of so many sentences holds."""
        return ModelSizes(
            activations=4 * self.states * self.embedding * (1 + 3 * self.residual_blocks),
            rules=self.states**2,
            tags=self.states,
            word_numbers=self.states,
            network_keys="model.embedding or model.states",
            rule_keys="model.states",
            tag_keys="model.states",
        )


class NeuralHMM(nn.Module):
    """To come."""

    shares_rules = True

    def __init__(self, config: NeuralHMMConfig, vocabulary_size: int) -> None:
        super().__init__()
        raise InputError("model.kind = 'hmm' is not there yet")

    def loss(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Negative log-likelihood of each sentence in nats: [B]."""
        raise NotImplementedError
