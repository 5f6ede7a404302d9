"""Base configuration and shared network of hidden Markov models."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from simplepcfg.models.networks import ResidualBlock
from simplepcfg.models.settings import KindConfig, check_deviation, check_networks, check_sizes, setting

BLOCKS = 2  # residual blocks of every network


@dataclass(frozen=True, kw_only=True)
class HiddenMarkovConfig(KindConfig):
    """Sizes of a hidden Markov model."""

    needs_eos: ClassVar[bool] = True  # A sentence ends with the word <eos>: the chain itself has no end.

    states: int = setting(16384, "Number of hidden states, S.")
    embedding: int = setting(256, "Width of embeddings and networks.")
    networks: Literal["released", "residual"] = setting(
        "released",
        "`released`: those of the authors' program. `residual`: residual networks, which read fewer tables.",
    )
    rms_norm: bool = setting(
        False,
        "RMS normalisation of the networks' outputs, with learned gains; for model.networks = `residual`.",
    )
    init_logit_std: float = setting(
        0.0,
        "Initial standard deviation of the logits, for model.networks = `residual`; 0 takes Xavier-normal embeddings.",
    )

    def __post_init__(self) -> None:
        check_sizes(self, "states", "embedding")
        check_deviation(self)
        check_networks(self)

    @property
    def released(self) -> bool:
        """Whether the networks are those of the authors' program."""
        return self.networks == "released"


def released_emission_network(size: int) -> nn.Sequential:
    """Return the emission network of the released HMM and LHMM: residual blocks without a linear layer first."""
    return nn.Sequential(*(ResidualBlock(size) for _ in range(BLOCKS)))
