"""LHMM: a hidden Markov model whose transitions have low rank, so that many states cost little (Chiu et al. 2021)."""

from dataclasses import dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplepcfg.errors import InputError
from simplepcfg.grammars import HiddenMarkovModel
from simplepcfg.models.checks import check_sizes, check_vocabulary
from simplepcfg.models.exact import ExactModel
from simplepcfg.models.hidden_markov import HiddenMarkovConfig
from simplepcfg.models.networks import ResidualNetwork, initialise_xavier
from simplepcfg.models.parts import emissions_of, network_outputs
from simplepcfg.models.sizes import ModelSizes
from simplepcfg.models.starts import spread_scores
from simplepcfg.models.thinning import Thinning, step_tables
from simplepcfg.ops.neural import LEAST_FACTOR, log_normaliser, row_softmax, rule_softmax

ALIGNMENT = 8  # numbers


@dataclass(frozen=True, kw_only=True)
class LowRankHMMConfig(HiddenMarkovConfig):
    """Sizes of a low-rank HMM, the LHMM."""

    kind: Literal["lhmm"] = field(default="lhmm", metadata={"description": "Which model."})
    rank: int = field(default=4096, metadata={"description": "Rank of the transitions, r: at most S."})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "rank")
        if self.rank > self.states:
            raise InputError(f"model.rank = {self.rank}; it must be at most model.states = {self.states}")

    def sizes(self, batch: int) -> ModelSizes:
        """What a batch of so many sentences holds."""
        return ModelSizes(
            activations=4 * self.states * self.embedding * (1 + 3 * self.residual_blocks),
            rules=2 * self.states * self.rank,
            tags=self.states,
            word_numbers=self.states + self.rank,
            network_keys="model.embedding or model.states",
            rule_keys="model.states and model.rank",
            tag_keys="model.states",
        )


class LowRankHMM(ExactModel):
    """As the neural HMM, but transitions are a softmax with a kernel of r features, φ(x) = exp(W x):

        transition[s, s'] = φ(f2(w_s)) · φ(f3(w_s')) / Σ_t φ(f2(w_s)) · φ(f3(w_t))

    which is a choice of a feature and then of a state, T = U V with

        V[k, s'] ∝ exp(W_k · f3(w_s'))                   over all states s'
        U[s, k]  ∝ exp(W_k · f2(w_s)) · Σ_t exp(W_k · f3(w_t))     over all features k

    Word id 0 is padding and is never emitted.
    """

    def __init__(self, config: LowRankHMMConfig, vocabulary_size: int) -> None:
        super().__init__()
        check_vocabulary(vocabulary_size)
        self.config = config
        size = config.embedding
        self.symbols = nn.Parameter(torch.empty(config.states, size))
        self.start = nn.Parameter(torch.empty(1, size))
        self.features = nn.Parameter(torch.empty(config.rank, size))  # W
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))
        self.first = ResidualNetwork.of(config)  # f1
        self.source = ResidualNetwork.of(config)  # f2
        self.target = ResidualNetwork.of(config)  # f3
        self.emission = ResidualNetwork.of(config)  # f4
        initialise_xavier(self)
        if config.initial_scores:
            scored = [self.start, self.features, self.word_embeddings]
            spread_scores(self, config.initial_scores, read=[self.symbols], scored=scored)
        self.precision: str | None = None  # of the matrix products in training; evaluation is as exact as float32
        self.thinning: Thinning | None = None  # what a training step leaves out

    @property
    def symbol_groups(self) -> tuple[int, ...]:
        """The states."""
        return (self.config.states,)

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> HiddenMarkovModel:
        """The model of the present parameters; it is the same for every sentence, so the arguments are not used."""
        precision = self.precision if self.training else None
        symbols, _, word_embeddings = step_tables(self)
        networks = (self.first, self.source, self.target, self.emission)
        first, source, target, emitting = network_outputs(symbols, networks, precision)
        start = rule_softmax(first.to(self.start.dtype) @ self.start[0])
        features = self.features.to(target.dtype)
        # The weight of a feature is one more column of the scores. What all features share cancels, and without it
        # little is left to round. Columns of zeros keep rows where tensor cores want them.
        weight = log_normaliser(features, target, precision=precision)
        weight = (weight - weight.mean()).to(target.dtype)
        into = row_softmax(
            F.pad(F.pad(source, (0, 1), value=1.0), (0, ALIGNMENT - 1)),
            F.pad(torch.cat([features, weight[:, None]], 1), (0, ALIGNMENT - 1)),
            precision=precision,
            least=LEAST_FACTOR,
        )
        out_of = row_softmax(features, target, precision=precision, least=LEAST_FACTOR)
        emissions = emissions_of(emitting, word_embeddings, precision, self.training)
        return HiddenMarkovModel(start, (into, out_of), emissions, precision)
