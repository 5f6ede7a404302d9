"""TN-PCFG: the tensor-decomposed neural PCFG (Yang, Zhao and Tu, 2021), computed in rank space."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from simplepcfg.grammars import RankGrammar
from simplepcfg.models.exact import ExactModel
from simplepcfg.models.initialisation import set_initial_logit_std
from simplepcfg.models.networks import BLOCKS, ResidualNetwork, initialise
from simplepcfg.models.rank_pcfg import rank_rules
from simplepcfg.models.settings import ModelSizes, SymbolConfig, setting
from simplepcfg.models.shared_layers import make_emissions
from simplepcfg.ops.neural import LEAST_FACTOR, rule_softmax


@dataclass(frozen=True, kw_only=True)
class TensorPCFGConfig(SymbolConfig):
    """Sizes of a TN-PCFG."""

    kind: Literal["tn-pcfg"] = setting("tn-pcfg", "Which model.")
    nonterminals: int = setting(250, "Number of nonterminals, N.")
    preterminals: int = setting(500, "Number of preterminals, P.")
    rank: int = setting(500, "Rank of the rules, R.")
    embedding: int = setting(256, "Width of embeddings and networks.")

    def sizes(self, batch: int) -> ModelSizes:
        states, tags, rank = self.nonterminals, self.preterminals, self.rank
        return ModelSizes(
            activations=((3 * states + 2 * tags) * 3 + tags * (1 + 3 * BLOCKS)) * self.embedding,
            rules=rank_rules(states, tags, rank),
            tags=tags,
            span_numbers=rank,
            rule_keys="model.rank, model.nonterminals or model.preterminals",
        )


class TensorPCFG(ExactModel):
    """TN-PCFG, π(A → B C) = Σ_r U[A, r] V[r, B] W[r, C], each factor from a two-layer network with R outputs:

        root      = softmax over nonterminals of M f4(w_S)
        U[A, :]   = softmax over ranks of f1(w_A)
        V[:, r]   = softmax over symbols B of f2(w_B)[r]
        W[:, r]   = softmax over symbols C of f3(w_C)[r]
        emit[T]   = softmax over words of E f5(t_T)

    w are embeddings of all symbols, t others of the preterminals; f4 and f5 have two residual blocks, M and E biases.
    """

    def __init__(self, config: TensorPCFGConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        size = config.embedding
        self.symbols = nn.Parameter(torch.empty(config.nonterminals + config.preterminals, size))
        self.tags = nn.Parameter(torch.empty(config.preterminals, size))
        self.start = nn.Parameter(torch.empty(1, size))
        self.parent, self.left_child, self.right_child = (
            nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, config.rank)) for _ in range(3)
        )
        self.root = nn.Sequential(ResidualNetwork(size, size), nn.Linear(size, config.nonterminals))
        self.emission = ResidualNetwork(size, size)
        # The last column is the bias.
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size + 1))
        if config.init_logit_std:
            initialise(self)
            self._set_initial_logit_std()
        else:  # as released: word embeddings are a linear layer with PyTorch's default weights
            for table in (self.symbols, self.tags, self.start):
                nn.init.normal_(table)
            nn.init.uniform_(self.word_embeddings, -(size**-0.5), size**-0.5)
        self.precision: str | None = None  # of matrix products in training; evaluation has float32 accuracy

    @torch.no_grad()
    def _set_initial_logit_std(self) -> None:
        """Draw embeddings and scale the last layers of networks, so that all logits have this standard deviation."""
        deviation = self.config.init_logit_std
        tables = [self.symbols, self.tags, self.start, self.word_embeddings]
        set_initial_logit_std(self, deviation, inputs=[], outputs=tables)
        self.word_embeddings[:, -1] = 0.0
        networks: tuple[nn.Module, ...] = (self.parent, self.left_child, self.right_child, self.root)
        for network in networks:
            last = list(network.children())[-1]
            logits = network(self.start if network is self.root else self.symbols)
            last.load_state_dict({name: value * deviation / logits.std() for name, value in last.state_dict().items()})

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> RankGrammar:
        precision = self.precision if self.training else None
        root = rule_softmax(self.root(self.start)[0])
        up = rule_softmax(self.parent(self.symbols[: self.config.nonterminals]), least=LEAST_FACTOR)
        # The logits are copied so that the symbols of a rank are contiguous: on a GPU, a softmax over columns takes
        # longer than the inside algorithm.
        children = (net(self.symbols).T.contiguous() for net in (self.left_child, self.right_child))
        to_left, to_right = (rule_softmax(logits, least=LEAST_FACTOR) for logits in children)
        tags, words = self.emission(self.tags), self.word_embeddings
        emissions = make_emissions(tags, words[:, :-1], precision, self.training, words[:, -1])
        return RankGrammar(root, up, to_left, to_right, emissions, precision)
