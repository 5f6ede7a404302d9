"""N-PCFG: the neural PCFG with one probability for every rule A → B C (Kim, Dyer and Rush, 2019)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from simplepcfg.grammars import DenseGrammar
from simplepcfg.models.exact import ExactModel
from simplepcfg.models.initialisation import set_initial_logit_std
from simplepcfg.models.networks import ResidualNetwork, initialise
from simplepcfg.models.settings import ModelSizes, SymbolConfig, check_vocabulary, setting
from simplepcfg.models.shared_layers import make_emissions, make_word_bias
from simplepcfg.ops.neural import rule_softmax

# Rules and their gradients are held twice: as one tensor, and in the blocks that matrix products read.
RULE_COPIES = 2
BLOCKS = 2  # residual blocks of the networks of root and emissions


@dataclass(frozen=True, kw_only=True)
class DensePCFGConfig(SymbolConfig):
    """Sizes of a model with one probability for every rule A → B C."""

    nonterminals: int = setting(30, "Number of nonterminals, N.")
    preterminals: int = setting(60, "Number of preterminals, P.")
    embedding: int = setting(256, "Width of embeddings and networks.")

    def sizes_of(self, grammars: int) -> ModelSizes:
        """Return the tensor sizes of a batch with the rules and emissions of so many grammars."""
        states, tags = self.nonterminals, self.preterminals
        layers = 1 + 3 * BLOCKS
        return ModelSizes(
            activations=grammars * (1 + tags) * self.embedding * layers,
            rules=RULE_COPIES * grammars * states * (states + tags) ** 2,
            tags=tags,
            emission_tables=grammars,
            span_numbers=states * min(5 + states // 6, 20),  # symbols, children and their pairs; more are recomputed
            word_numbers=states**2,  # matrices over parent and sibling of each word
            full_precision=True,
        )


@dataclass(frozen=True, kw_only=True)
class NPCFGConfig(DensePCFGConfig):
    """Sizes of an N-PCFG."""

    kind: Literal["n-pcfg"] = setting("n-pcfg", "Which model.")

    def sizes(self, batch: int) -> ModelSizes:
        return self.sizes_of(grammars=1)


class NPCFG(ExactModel):
    """Neural PCFG, with root, rules and emissions from symbol embeddings w:

        root[A]        ∝ exp(u_A · f1(w_S) + a_A)
        rules[A, B, C] ∝ exp(v_BC · w_A + b_BC)       over all pairs of symbols B, C
        emit[T, v]     ∝ exp(f2(w_T) · u_v + c_v)     over all words v

    f1 and f2 are a linear layer and two residual blocks. Weights are Xavier-uniform, biases are PyTorch's default.
    Word id 0 is padding and is never emitted. Rules are computed in float32, whatever ``precision`` says.
    """

    def __init__(self, config: NPCFGConfig, vocabulary_size: int) -> None:
        super().__init__()
        check_vocabulary(vocabulary_size)
        self.config = config
        size = config.embedding
        every = config.nonterminals + config.preterminals
        self.symbols = nn.Parameter(torch.empty(every, size))
        self.start = nn.Parameter(torch.empty(1, size))
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))
        self.word_bias = make_word_bias(vocabulary_size, size)  # c
        self.root = ResidualNetwork(size, size, BLOCKS)  # f1
        self.root_scores = nn.Linear(size, config.nonterminals)  # u_A and a_A
        self.rules = nn.Linear(size, every * every)  # v_BC and b_BC
        self.emission = ResidualNetwork(size, size, BLOCKS)  # f2
        initialise(self, "xavier_uniform")
        if config.init_logit_std:
            outputs = [self.symbols, self.word_embeddings, self.rules.weight]
            set_initial_logit_std(self, config.init_logit_std, inputs=[], outputs=outputs)
        self.precision: str | None = None  # of the matrix products of emissions in training

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> DenseGrammar:
        split, every = self.config.nonterminals, self.symbols.shape[0]
        root = rule_softmax(self.root_scores(self.root(self.start[0])))
        rules = rule_softmax(self.rules(self.symbols[:split])).view(split, every, every)
        precision = self.precision if self.training else None
        tags = self.emission(self.symbols[split:])
        emissions = make_emissions(tags, self.word_embeddings, precision, self.training, self.word_bias)
        return DenseGrammar(root, rules, emissions)
