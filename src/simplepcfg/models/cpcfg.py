"""C-PCFG: the compound PCFG, all of whose rules read each sentence's vector z (Kim, Dyer and Rush, 2019)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from simplepcfg.grammars import DenseGrammar
from simplepcfg.models.compound import CompoundConfig, CompoundModel
from simplepcfg.models.initialisation import set_initial_logit_std
from simplepcfg.models.networks import ResidualNetwork, initialise
from simplepcfg.models.npcfg import BLOCKS, DensePCFGConfig
from simplepcfg.models.settings import ModelSizes, check_vocabulary, setting
from simplepcfg.models.shared_layers import make_emissions, make_word_bias
from simplepcfg.ops.neural import rule_softmax


@dataclass(frozen=True, kw_only=True)
class CPCFGConfig(CompoundConfig, DensePCFGConfig):
    """Sizes of a C-PCFG."""

    kind: Literal["c-pcfg"] = setting("c-pcfg", "Which model.")

    def sizes(self, batch: int) -> ModelSizes:
        """Return the tensor sizes of a batch, in which each sentence has its own rules and emissions."""
        return self.sizes_of(grammars=batch)


class CPCFG(CompoundModel):
    """Compound PCFG: the N-PCFG with a latent z ~ N(0, I) of each sentence beside every embedding:

    root[A]        ∝ exp(u_A · f1([w_S; z]) + a_A)
    rules[A, B, C] ∝ exp(v_BC · [w_A; z] + b_BC)       over all pairs of symbols B, C
    emit[T, v]     ∝ exp(f2([w_T; z]) · u_v + c_v)     over all words v
    """

    def __init__(self, config: CPCFGConfig, vocabulary_size: int) -> None:
        check_vocabulary(vocabulary_size)
        super().__init__(config, vocabulary_size)
        self.config = config
        size, inputs = config.embedding, config.embedding + config.latent
        every = config.nonterminals + config.preterminals
        self.symbols = nn.Parameter(torch.empty(every, size))
        self.start = nn.Parameter(torch.empty(1, size))
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))
        self.word_bias = make_word_bias(vocabulary_size, size)  # c
        self.root = ResidualNetwork(inputs, size, BLOCKS)  # f1
        self.root_scores = nn.Linear(size, config.nonterminals)  # u_A and a_A
        self.rules = nn.Linear(size, every * every)  # v_BC where it meets w_A, and b_BC
        self.sentence_rules = nn.Linear(config.latent, every * every, bias=False)  # v_BC where it meets z
        self.emission = ResidualNetwork(inputs, size, BLOCKS)  # f2
        initialise(self, "xavier_uniform")
        self._initialise_rules(inputs)
        if config.init_logit_std:
            outputs = [self.symbols, self.word_embeddings, self.rules.weight]
            set_initial_logit_std(self, config.init_logit_std, inputs=[], outputs=outputs)

    @torch.no_grad()
    def _initialise_rules(self, inputs: int) -> None:
        """Draw the two layers of the rules as one Xavier-uniform layer of [w; z] with PyTorch's default biases."""
        bound = (6 / (inputs + self.rules.out_features)) ** 0.5
        for layer in (self.rules, self.sentence_rules):
            layer.weight.uniform_(-bound, bound)
        self.rules.bias.uniform_(-(inputs**-0.5), inputs**-0.5)

    def grammar_of(self, z: Tensor) -> DenseGrammar:
        split, every = self.config.nonterminals, self.symbols.shape[0]
        root = rule_softmax(self.root_scores(self.root(_with_z(self.start, z)[:, 0])))  # [B, N]
        # A linear layer of [w; z] is the sum of one of w and one of z; each is computed once and not for every pair.
        logits = self.rules(self.symbols[:split]) + self.sentence_rules(z)[:, None]  # [B, N, S²]
        rules = rule_softmax(logits).unflatten(-1, (every, every))
        tags = self.emission(_with_z(self.symbols[split:], z))  # [B, P, D]
        precision = self.precision if self.training else None
        emissions = make_emissions(tags, self.word_embeddings, precision, self.training, self.word_bias)
        return DenseGrammar(root, rules, emissions)


def _with_z(rows: Tensor, z: Tensor) -> Tensor:
    """Return [w; z], [B, X, D + Z], for every row w of [X, D] and every z of [B, Z]."""
    batch, count = z.shape[0], rows.shape[0]
    return torch.cat((rows.expand(batch, -1, -1), z[:, None].expand(-1, count, -1)), -1)
