"""N-PCFG: the neural PCFG with one probability for every rule A → B C (Kim, Dyer and Rush, 2019)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from simplepcfg.grammars import DenseGrammar
from simplepcfg.models.exact import ExactModel
from simplepcfg.models.initialisation import set_initial_logit_std
from simplepcfg.models.networks import BLOCKS, ResidualNetwork, initialise
from simplepcfg.models.settings import ModelSizes, SymbolConfig, setting
from simplepcfg.models.shared_layers import make_emissions, make_word_bias
from simplepcfg.ops.neural import rule_softmax

# Rules and their gradients are held twice: as one tensor, and in the blocks that matrix products read.
RULE_COPIES = 2


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


class DenseModel(nn.Module):
    """The tables and networks of a model with one probability for every rule A → B C."""

    config: DensePCFGConfig
    precision: str | None = None  # of the matrix products of emissions in training

    def _build(self, config: DensePCFGConfig, vocabulary_size: int, latent: int = 0) -> None:
        """Make and draw the weights, of networks that read so many numbers of a sentence beside each embedding."""
        self.config = config
        size, inputs = config.embedding, config.embedding + latent
        every = config.nonterminals + config.preterminals
        self.symbols = nn.Parameter(torch.empty(every, size))  # w
        self.start = nn.Parameter(torch.empty(1, size))  # w_S
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))  # u_v
        self.word_bias = make_word_bias(vocabulary_size, size)  # c
        self.root = ResidualNetwork(inputs, size)  # f1
        self.root_scores = nn.Linear(size, config.nonterminals)  # u_A and a_A
        self.rules = nn.Linear(size, every * every)  # v_BC where it meets w_A, and b_BC
        if latent:
            self.sentence_rules = nn.Linear(latent, every * every, bias=False)  # v_BC where it meets z
        self.emission = ResidualNetwork(inputs, size)  # f2
        initialise(self, "xavier_uniform")
        if latent:  # The two layers of the rules are drawn as one Xavier-uniform layer of [w; z].
            bound = (6 / (inputs + self.rules.out_features)) ** 0.5
            for layer in (self.rules, self.sentence_rules):
                nn.init.uniform_(layer.weight, -bound, bound)
            nn.init.uniform_(self.rules.bias, -(inputs**-0.5), inputs**-0.5)
        if config.init_logit_std:
            outputs = [self.symbols, self.word_embeddings, self.rules.weight]
            set_initial_logit_std(self, config.init_logit_std, inputs=[], outputs=outputs)

    def _grammar_of(self, root_features: Tensor, rules: Tensor, tags: Tensor) -> DenseGrammar:
        """Return the grammar of outputs of f1 and f2, and logits of rules [(B,) N, S²]."""
        every, precision = self.symbols.shape[0], self.precision if self.training else None
        root = rule_softmax(self.root_scores(root_features))
        emissions = make_emissions(tags, self.word_embeddings, precision, self.training, self.word_bias)
        return DenseGrammar(root, rule_softmax(rules).unflatten(-1, (every, every)), emissions)


class NPCFG(DenseModel, ExactModel):
    """Neural PCFG, with root, rules and emissions from symbol embeddings w:

        root[A]        ∝ exp(u_A · f1(w_S) + a_A)
        rules[A, B, C] ∝ exp(v_BC · w_A + b_BC)       over all pairs of symbols B, C
        emit[T, v]     ∝ exp(f2(w_T) · u_v + c_v)     over all words v

    f1 and f2 are a linear layer and two residual blocks. Weights are Xavier-uniform, biases are PyTorch's default.
    Word id 0 is padding and is never emitted. Rules are computed in float32, whatever ``precision`` says.
    """

    def __init__(self, config: NPCFGConfig, vocabulary_size: int) -> None:
        super().__init__()
        self._build(config, vocabulary_size)

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> DenseGrammar:
        parents, preterminals = self.symbols.tensor_split([self.config.nonterminals])
        return self._grammar_of(self.root(self.start[0]), self.rules(parents), self.emission(preterminals))
