"""N-PCFG: the neural PCFG with a probability for every A → B C (Kim, Dyer and Rush, 2019)."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from simplepcfg.grammars import DenseGrammar
from simplepcfg.models.checks import check_vocabulary
from simplepcfg.models.dense import DensePCFGConfig
from simplepcfg.models.exact import ExactModel
from simplepcfg.models.networks import ResidualNetwork, initialise_xavier
from simplepcfg.models.parts import emissions_of
from simplepcfg.models.sizes import ModelSizes
from simplepcfg.models.starts import spread_scores
from simplepcfg.ops.neural import rule_softmax


@dataclass(frozen=True, kw_only=True)
class NPCFGConfig(DensePCFGConfig):
    """Sizes of an N-PCFG."""

    kind: Literal["n-pcfg"] = field(default="n-pcfg", metadata={"description": "Which model."})

    def sizes(self, batch: int) -> ModelSizes:
        """What a batch of so many sentences holds."""
        return self.sizes_of(grammars=1)


class NPCFG(ExactModel):
    """Root, rules and emissions from symbol embeddings w:

        root[A]        ∝ exp(u_A · f1(w_S))
        rules[A, B, C] ∝ exp(v_BC · w_A + b_BC)     over all pairs of symbols B, C
        emit[T, v]     ∝ exp(f2(w_T) · u_v)         over all words v

    Word id 0 is padding and is never emitted. Rules are computed in float32, whatever ``precision`` says.
    """

    def __init__(self, config: NPCFGConfig, vocabulary_size: int) -> None:
        super().__init__()
        check_vocabulary(vocabulary_size)
        self.config = config
        size, blocks = config.embedding, config.residual_blocks
        every = config.nonterminals + config.preterminals
        self.symbols = nn.Parameter(torch.empty(every, size))
        self.start = nn.Parameter(torch.empty(1, size))
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))
        self.root = ResidualNetwork(size, size, blocks)  # f1
        self.root_scores = nn.Linear(size, config.nonterminals)  # u_A
        self.rules = nn.Linear(size, every * every)  # v_BC
        self.emission = ResidualNetwork(size, size, blocks)  # f2
        initialise_xavier(self)
        if config.initial_scores:
            scored = [self.symbols, self.word_embeddings, self.rules.weight]
            spread_scores(self, config.initial_scores, read=[], scored=scored)
        self.precision: str | None = None  # of the products that give emissions in training

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> DenseGrammar:
        """The grammar of the present parameters; it is the same for every sentence, so the arguments are not used."""
        split, every = self.config.nonterminals, self.symbols.shape[0]
        root = rule_softmax(self.root_scores(self.root(self.start[0])))
        rules = rule_softmax(self.rules(self.symbols[:split])).view(split, every, every)
        precision = self.precision if self.training else None
        emissions = emissions_of(self.emission(self.symbols[split:]), self.word_embeddings, precision, self.training)
        return DenseGrammar(root, rules, emissions)
