"""What the configurations of all hidden Markov models share."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from simplepcfg.models.checks import check_blocks, check_deviation, check_sizes


@dataclass(frozen=True, kw_only=True)
class HiddenMarkovConfig:
    """Sizes that every hidden Markov model has."""

    # Read by pydantic where it is installed: a misspelt key is an error, not ignored.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    needs_eos: ClassVar[bool] = True  # nothing but a word can end a sentence

    kind: str
    states: int = field(default=16384, metadata={"description": "Number of hidden states, S."})
    embedding: int = field(default=256, metadata={"description": "Width of all embeddings and of the networks."})
    residual_blocks: int = field(default=2, metadata={"description": "Residual blocks in each of the networks."})
    normalised: bool = field(
        default=False,
        metadata={
            "description": "Features, which the networks give, are brought to one size for all states, with gains "
            "that are learned: scores then cannot grow by the networks' layers multiplying."
        },
    )
    initial_scores: float = field(
        default=0.0,
        metadata={
            "description": "Standard deviation of the scores at the start; 0 takes Xavier-normal embeddings, whose "
            "scores are all near 0."
        },
    )

    def __post_init__(self) -> None:
        check_sizes(self, "states", "embedding")
        check_blocks(self)
        check_deviation(self)
