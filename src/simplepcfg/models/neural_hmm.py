"""Neural HMM: a hidden Markov model whose probabilities are scores between state and word embeddings."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from simplepcfg.grammars import HiddenMarkovModel
from simplepcfg.models.checks import check_vocabulary
from simplepcfg.models.exact import ExactModel
from simplepcfg.models.hidden_markov import HiddenMarkovConfig
from simplepcfg.models.networks import ResidualNetwork, initialise_xavier
from simplepcfg.models.parts import emissions_of, network_outputs
from simplepcfg.models.sizes import ModelSizes
from simplepcfg.models.starts import spread_scores
from simplepcfg.models.thinning import Thinning, step_tables
from simplepcfg.ops.neural import row_softmax, rule_softmax


@dataclass(frozen=True, kw_only=True)
class NeuralHMMConfig(HiddenMarkovConfig):
    """Sizes of a neural HMM."""

    kind: Literal["hmm"] = field(default="hmm", metadata={"description": "Which model."})
    states: int = field(default=4096, metadata={"description": "Number of hidden states, S."})
    embedding: int = field(default=512, metadata={"description": "Width of all embeddings and of the networks."})

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


class NeuralHMM(ExactModel):
    """Start, transition and emission probabilities from embeddings w and networks f1 … f4, as SN-PCFG makes rules:

        start[s]           ∝ exp(u_S · f1(w_s))
        transition[s, s']  ∝ exp(f2(w_s) · f3(w_s'))     over all states s'
        emit[s, v]         ∝ exp(f4(w_s) · u_v)          over all words v

    Word id 0 is padding and is never emitted.
    """

    def __init__(self, config: NeuralHMMConfig, vocabulary_size: int) -> None:
        super().__init__()
        check_vocabulary(vocabulary_size)
        self.config = config
        size = config.embedding
        self.symbols = nn.Parameter(torch.empty(config.states, size))
        self.start = nn.Parameter(torch.empty(1, size))
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))
        self.first = ResidualNetwork.of(config)  # f1
        self.source = ResidualNetwork.of(config)  # f2
        self.target = ResidualNetwork.of(config)  # f3
        self.emission = ResidualNetwork.of(config)  # f4
        initialise_xavier(self)
        if config.initial_scores:
            scored = [self.start, self.word_embeddings]
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
        transitions = row_softmax(source, target, precision=precision)
        emissions = emissions_of(emitting, word_embeddings, precision, self.training)
        return HiddenMarkovModel(start, transitions, emissions, precision)
