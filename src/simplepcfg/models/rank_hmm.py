"""Rank HMM: one of r ranks chooses word and next state, so that inference needs ranks alone (Yang et al. 2022)."""

from dataclasses import dataclass, field
from typing import Literal

import torch
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
from simplepcfg.ops.neural import LEAST_FACTOR, product, row_softmax, rule_softmax


@dataclass(frozen=True, kw_only=True)
class RankHMMConfig(HiddenMarkovConfig):
    """Sizes of a Rank HMM."""

    kind: Literal["rank-hmm"] = field(default="rank-hmm", metadata={"description": "Which model."})
    rank: int = field(default=4096, metadata={"description": "Number of ranks, r: at most S."})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "rank")
        if self.rank > self.states:
            raise InputError(f"model.rank = {self.rank}; it must be at most model.states = {self.states}")

    def sizes(self, batch: int) -> ModelSizes:
        """What a batch of so many sentences holds."""
        return ModelSizes(
            activations=(self.states + self.rank) * self.embedding * (1 + 3 * self.residual_blocks),
            rules=2 * self.states * self.rank + self.rank**2,
            tags=self.rank,
            word_numbers=self.rank,
            network_keys="model.embedding or model.states",
            rule_keys="model.states and model.rank",
            tag_keys="model.rank",
        )


class RankHMM(ExactModel):
    """A state chooses a rank, the rank a word and, independently, the next state:

        p(v, s' | s) = Σ_k U[s, k] emit[k, v] V[k, s']
        start[s] ∝ exp(u_S · f1(w_s))               U[s, k]  ∝ exp(w_s · p_k)      over all ranks k
        emit[k, v] ∝ exp(f2(p_k) · u_v)             V[k, s'] ∝ exp(p_k · x_s')     over all states s'

    States appear only between two ranks, so they are summed out once: the ranks are a hidden Markov model by
    themselves, with start · U and transitions V U, [r, r]. That is the model `grammar` gives: its states are the ranks.
    Word id 0 is padding and is never emitted.
    """

    def __init__(self, config: RankHMMConfig, vocabulary_size: int) -> None:
        super().__init__()
        check_vocabulary(vocabulary_size)
        self.config = config
        size = config.embedding
        self.symbols = nn.Parameter(torch.empty(config.states, size))  # w
        self.next_symbols = nn.Parameter(torch.empty(config.states, size))  # x
        self.ranks = nn.Parameter(torch.empty(config.rank, size))  # p
        self.start = nn.Parameter(torch.empty(1, size))
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))
        self.first = ResidualNetwork.of(config)  # f1
        self.emission = ResidualNetwork.of(config)  # f2
        initialise_xavier(self)
        if config.initial_scores:
            scored = [self.symbols, self.next_symbols, self.ranks, self.start, self.word_embeddings]
            spread_scores(self, config.initial_scores, read=[], scored=scored)
        self.precision: str | None = None  # of the matrix products in training; evaluation is as exact as float32
        self.thinning: Thinning | None = None  # what a training step leaves out

    @property
    def symbol_groups(self) -> tuple[int, ...]:
        """The states; ranks always take part."""
        return (self.config.states,)

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> HiddenMarkovModel:
        """The chain of ranks of the present parameters; it is the same for every sentence."""
        precision = self.precision if self.training else None
        start, into, out_of, emitting, word_embeddings = self._step_factors()
        chain = start[None].to(into.dtype) @ into  # [1, r]
        transitions = product(out_of, into, precision=precision)
        emissions = emissions_of(emitting, word_embeddings, precision, self.training)
        return HiddenMarkovModel(chain[0].to(start.dtype), transitions, emissions, precision)

    def factors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """start [S], U [S, r], V [r, S] and what the ranks' words are scored by, [r, D]."""
        return self._step_factors()[:4]

    def _step_factors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The same with the words' embeddings, all of them as a step sees them."""
        precision = self.precision if self.training else None
        symbols, _, word_embeddings = step_tables(self)
        next_symbols: Tensor = self.next_symbols
        ranks: Tensor = self.ranks
        if self.training and self.thinning is not None:
            next_symbols, ranks = self.thinning.thin(self.thinning.rows(next_symbols)), self.thinning.thin(ranks)
        (first,) = network_outputs(symbols, [self.first], precision)
        (emitting,) = network_outputs(ranks, [self.emission], precision)
        start = rule_softmax(first.to(self.start.dtype) @ self.start[0])
        into = row_softmax(symbols, ranks, precision=precision, least=LEAST_FACTOR)
        out_of = row_softmax(ranks, next_symbols, precision=precision, least=LEAST_FACTOR)
        return start, into, out_of, emitting, word_embeddings
