"""Neural HMM: a hidden Markov model whose logits are dot products of state and word embeddings."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from simplepcfg.errors import InputError
from simplepcfg.grammars import Emissions, HiddenMarkovModel
from simplepcfg.models.initialisation import set_initial_logit_std
from simplepcfg.models.networks import BLOCKS, ResidualBlock, ResidualNetwork, initialise
from simplepcfg.models.settings import ModelSizes, ResidualConfig, setting
from simplepcfg.models.shared_layers import apply_network, apply_networks, make_emissions
from simplepcfg.models.step_dropout import DropoutModel
from simplepcfg.ops.neural import row_softmax, rule_softmax


@dataclass(frozen=True, kw_only=True)
class HiddenMarkovConfig(ResidualConfig):
    """Sizes of a hidden Markov model."""

    has_trees: ClassVar[bool] = False
    needs_eos: ClassVar[bool] = True  # A sentence ends with the word <eos>: the chain itself has no end.

    states: int = setting(16384, "Number of hidden states, S.")
    embedding: int = setting(256, "Width of embeddings and networks.")

    def __post_init__(self) -> None:
        super().__post_init__()
        rank = getattr(self, "rank", 0)
        if rank > self.states:
            raise InputError(f"model.rank = {rank}; it must be at most model.states = {self.states}")

    def sizes(self, batch: int) -> ModelSizes:
        """Return the tensor sizes of a batch with one matrix of transitions."""
        return ModelSizes(
            activations=self.states * self.embedding * (3 * BLOCKS if self.released else 4 * (1 + 3 * BLOCKS)),
            rules=self.states**2,
            tags=self.states,
            word_numbers=self.states,
            network_keys="model.embedding or model.states",
            rule_keys="model.states",
            tag_keys="model.states",
        )


@dataclass(frozen=True, kw_only=True)
class NeuralHMMConfig(HiddenMarkovConfig):
    """Sizes of a neural HMM."""

    kind: Literal["hmm"] = setting("hmm", "Which model.")
    states: int = setting(4096, "Number of hidden states, S.")
    embedding: int = setting(512, "Width of embeddings and networks.")


class NeuralHMM(DropoutModel):
    """Neural HMM, with probabilities from state embeddings a, b, c and word embeddings u:

        start[s]           ∝ exp(f1(w_S) · b_s)
        transition[s, s']  ∝ exp(a_s · b_s')          over all states s'
        emit[s, v]         ∝ exp(f4(c_s) · u_v)       over all words v

    as the softmax HMM of Chiu, Deng and Rush (2021) was released: f1 is a linear layer and two residual blocks, f4 two
    residual blocks. With ``networks = "residual"`` each part reads one table w of states through a network of its own:

        start[s]           ∝ exp(u_S · f1(w_s))
        transition[s, s']  ∝ exp(f2(w_s) · f3(w_s'))
        emit[s, v]         ∝ exp(f4(w_s) · u_v)

    Word id 0 is padding and is never emitted.
    """

    def __init__(self, config: HiddenMarkovConfig, vocabulary_size: int, features: int = 0) -> None:
        """`features` is the number of kernel features, which a low-rank HMM has."""
        super().__init__()
        self.config = config
        size, rms_norm = config.embedding, config.rms_norm
        self.symbols = nn.Parameter(torch.empty(config.states, size))  # a, or w
        self.start = nn.Parameter(torch.empty(1, size))  # w_S, or u_S
        if features:
            self.features = nn.Parameter(torch.empty(features, size))  # W
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))  # u_v
        self.first = ResidualNetwork(size, size, rms_norm=rms_norm)  # f1
        if config.released:
            self.next_symbols = nn.Parameter(torch.empty(config.states, size))  # b
            self.emitting_symbols = nn.Parameter(torch.empty(config.states, size))  # c
            self.emission = nn.Sequential(*(ResidualBlock(size) for _ in range(BLOCKS)))  # f4
            initialise(self, "xavier_uniform")
            nn.init.normal_(self.start)
        else:
            self.source = ResidualNetwork(size, size, rms_norm=rms_norm)  # f2
            self.target = ResidualNetwork(size, size, rms_norm=rms_norm)  # f3
            self.emission = ResidualNetwork(size, size, rms_norm=rms_norm)  # f4
            initialise(self)
        if config.init_logit_std:
            outputs = [self.start, *([self.features] if features else []), self.word_embeddings]
            set_initial_logit_std(self, config.init_logit_std, inputs=[self.symbols], outputs=outputs)

    @property
    def symbol_groups(self) -> tuple[int, ...]:
        """Number of states, the only group of symbols."""
        return (self.config.states,)

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> HiddenMarkovModel:
        precision = self.precision if self.training else None
        start, source, target, emissions = self._parts(precision)
        if start is None:
            (first,) = apply_networks(self.start, [self.first], precision)
            start = rule_softmax(target @ first[0].to(target.dtype))
        return HiddenMarkovModel(start, row_softmax(source, target, precision=precision), emissions, precision)

    def _parts(self, precision: str | None) -> tuple[Tensor | None, Tensor, Tensor, Emissions]:
        """Return the start, unless it is that of the authors' program, a and b of all states, and the emissions."""
        symbols, _, word_embeddings = self.select_tables()
        start = None
        if self.config.released:
            dropout = self.active_dropout()
            source, target = symbols, dropout.table(self.next_symbols)
            emitting = apply_network(self.emission, dropout.table(self.emitting_symbols), precision)
        else:
            networks = (self.first, self.source, self.target, self.emission)
            first, source, target, emitting = apply_networks(symbols, networks, precision)  # type: ignore[arg-type]
            start = rule_softmax(first.to(self.start.dtype) @ self.start[0])
        return start, source, target, make_emissions(emitting, word_embeddings, precision, self.training)
