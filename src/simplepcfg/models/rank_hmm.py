"""Rank HMM: one of r ranks chooses the word and the next state, so that inference is over ranks (Yang et al. 2022)."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplepcfg.grammars import HiddenMarkovModel
from simplepcfg.models.initialisation import set_initial_logit_std
from simplepcfg.models.networks import BLOCKS, ResidualNetwork, initialise
from simplepcfg.models.neural_hmm import HiddenMarkovConfig
from simplepcfg.models.settings import ModelSizes, setting
from simplepcfg.models.shared_layers import apply_networks, make_emissions
from simplepcfg.models.step_dropout import DropoutModel
from simplepcfg.ops.neural import LEAST_FACTOR, product, row_softmax, rule_softmax


@dataclass(frozen=True, kw_only=True)
class RankHMMConfig(HiddenMarkovConfig):
    """Sizes of a Rank HMM."""

    kind: Literal["rank-hmm"] = setting("rank-hmm", "Which model.")
    rank: int = setting(4096, "Number of ranks, r: at most S.")

    def sizes(self, batch: int) -> ModelSizes:
        return replace(
            super().sizes(batch),
            activations=(self.states + self.rank) * self.embedding * (1 + 3 * BLOCKS),
            rules=2 * self.states * self.rank + self.rank**2,
            tags=self.rank,
            word_numbers=self.rank,
            rule_keys="model.states and model.rank",
            tag_keys="model.rank",
        )


class RankHMM(DropoutModel):
    """Rank HMM: a state chooses a rank, and the rank chooses a word and, independently, the next state:

        p(v, s' | s) = Σ_k U[s, k] emit[k, v] V[k, s']
        start[s]   ∝ exp(u_S · f1(c_s))             U[s, k]  ∝ exp(a_s · p_k)      over all ranks k
        emit[k, v] ∝ exp(q_k · f2(u_v))             V[k, s'] ∝ exp(p_k · b_s')     over all states s'

    f1 and f2 are a linear layer and two residual blocks. With ``networks = "residual"`` the start reads a in place of
    c, and a rank's words are those of its p: emit[k, v] ∝ exp(f2(p_k) · u_v).

    States appear only between two ranks, so they are summed out once: the ranks are a hidden Markov model themselves,
    with start · U and transitions V U, [r, r]. This is the model that `grammar` returns: its states are the ranks.
    Word id 0 is padding and is never emitted.
    """

    def __init__(self, config: RankHMMConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        size, rms_norm = config.embedding, config.rms_norm
        self.symbols = nn.Parameter(torch.empty(config.states, size))  # a
        self.next_symbols = nn.Parameter(torch.empty(config.states, size))  # b
        self.ranks = nn.Parameter(torch.empty(config.rank, size))  # p
        # The authors' last layers have biases here, which cancel in the softmax over states or words.
        self.start = nn.Parameter(torch.empty(1, size))  # u_S
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))  # u_v
        if config.released:
            self.start_symbols = nn.Parameter(torch.empty(config.states, size))  # c
            self.emitting_ranks = nn.Parameter(torch.empty(config.rank, size))  # q
        self.first = ResidualNetwork(size, size, rms_norm=rms_norm)  # f1
        self.emission = ResidualNetwork(size, size, rms_norm=rms_norm)  # f2
        initialise(self, "xavier_normal_matrices" if config.released else "xavier_normal")
        if config.released:
            for table in (self.symbols, self.next_symbols, self.start_symbols, self.word_embeddings):
                nn.init.normal_(table)
        if config.init_logit_std:
            outputs = [self.symbols, self.next_symbols, self.ranks, self.start, self.word_embeddings]
            set_initial_logit_std(self, config.init_logit_std, inputs=[], outputs=outputs)

    drops_logits = True  # This model supports training.logit_dropout.

    @property
    def symbol_groups(self) -> tuple[int, ...]:
        """Number of states; ranks are never left out."""
        return (self.config.states,)

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> HiddenMarkovModel:
        """Return the HMM over ranks of the present parameters; the arguments are not used, since sentences share it."""
        precision = self.precision if self.training else None
        start, into, out_of, emitting, words_side = self.factors()
        chain = start[None].to(into.dtype) @ into  # [1, r]
        transitions = product(out_of, into, precision=precision)
        emissions = make_emissions(emitting, words_side, precision, self.training)
        return HiddenMarkovModel(chain[0].to(start.dtype), transitions, emissions, precision)

    def factors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return start [S], U [S, r], V [r, S], and the features of ranks [r, D] and words [V − 1, D] for emissions."""
        precision = self.precision if self.training else None
        symbols, _, words = self.select_tables()
        dropout = self.active_dropout()
        next_symbols, ranks = dropout.table(self.next_symbols), dropout.drop_features(self.ranks)
        if self.config.released:
            # Logit dropout drops the same share of the numbers of c, as the authors do.
            start_symbols = F.dropout(dropout.table(self.start_symbols), dropout.logits)
            (first,) = apply_networks(start_symbols, [self.first], precision)
            emitting = dropout.drop_features(self.emitting_ranks)
            (words,) = apply_networks(words, [self.emission], precision)
        else:
            (first,) = apply_networks(symbols, [self.first], precision)
            (emitting,) = apply_networks(ranks, [self.emission], precision)
        start = rule_softmax(first.to(self.start.dtype) @ self.start[0])
        into = dropout.drop_logits(row_softmax(symbols, ranks, precision=precision, least=LEAST_FACTOR))
        out_of = dropout.drop_logits(row_softmax(ranks, next_symbols, precision=precision, least=LEAST_FACTOR))
        return start, into, out_of, emitting, words
