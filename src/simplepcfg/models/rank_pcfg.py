"""Rank-PCFG: rules as a sum over ranks, computed in rank space (Yang, Liu and Tu, 2022)."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplepcfg.grammars import RankGrammar
from simplepcfg.models.initialisation import set_initial_logit_std
from simplepcfg.models.networks import BLOCKS, ResidualNetwork, initialise
from simplepcfg.models.settings import ModelSizes, ResidualConfig, SymbolConfig, setting
from simplepcfg.models.shared_layers import apply_network, apply_networks, make_emissions, make_word_bias
from simplepcfg.models.step_dropout import DropoutModel
from simplepcfg.ops.neural import LEAST_FACTOR, rule_probabilities, rule_softmax


@dataclass(frozen=True, kw_only=True)
class RankPCFGConfig(ResidualConfig, SymbolConfig):
    """Sizes of a rank-PCFG."""

    kind: Literal["rank-pcfg"] = setting("rank-pcfg", "Which model.")
    rank: int = setting(128, "Rank of the rules, R.")

    def sizes(self, batch: int) -> ModelSizes:
        states, tags, rank = self.nonterminals, self.preterminals, self.rank
        network = 1 + 3 * BLOCKS  # numbers of each row that are kept for backward, in rows
        rows = 3 * states + (2 + network) * tags if self.released else (4 * states + 3 * tags) * network
        return ModelSizes(
            activations=rows * self.embedding,
            rules=rank_rules(states, tags, rank),
            tags=tags,
            span_numbers=rank,
            rule_keys="model.rank, model.nonterminals or model.preterminals",
        )


def rank_rules(states: int, tags: int, rank: int) -> int:
    """Return how many numbers the three factors and both rule matrices of the simple grammar over ranks have."""
    return states * rank + 2 * rank * (states + tags) + 2 * rank * (rank + tags)


class RankPCFG(DropoutModel):
    """Rank-PCFG, π(A → B C) = Σ_r U[A, r] V[r, B] W[r, C], from embeddings w of symbols and a of ranks:

        root[A]    ∝ exp(u_A · f4(w_S) + c_A)
        U[A, r]    ∝ exp(f1(w_A) · a_r)           over all ranks r
        V[r, B]    ∝ exp(a_r · f2(w_B))           over all symbols B
        W[r, C]    ∝ exp(a_r · f3(w_C))           over all symbols C
        emit[T, v] ∝ exp(f5(w_T) · u_v + d_v)     over all words v

    as the authors released it: f1, f2 and f3 are ReLU(M x + m), f4 and f5 a linear layer and two residual blocks. With
    ``networks = "residual"`` all five are such residual networks, V and W have ranks b of their own in place of a, the
    root is u_S · f4(w_A), and words have no bias.
    """

    def __init__(self, config: RankPCFGConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        size = config.embedding
        self.symbols = nn.Parameter(torch.empty(config.nonterminals + config.preterminals, size))
        if config.released:
            self.ranks = nn.Parameter(torch.empty(config.rank, size))  # a
        else:
            self.ranks_below = nn.Parameter(torch.empty(config.rank, size))  # a: a nonterminal's choice
            self.ranks_above = nn.Parameter(torch.empty(config.rank, size))  # b: chooses the children
        self.start = nn.Parameter(torch.empty(1, size))  # w_S, or u_S
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))  # u_v
        if config.released:
            self.word_bias = make_word_bias(vocabulary_size, size)  # d
            self.parent, self.left_child, self.right_child = (
                nn.Sequential(nn.Linear(size, size), nn.ReLU()) for _ in range(3)
            )  # f1, f2, f3
            self.root = ResidualNetwork(size, size)  # f4
            self.root_scores = nn.Linear(size, config.nonterminals)  # u_A and c_A
            self.emission = ResidualNetwork(size, size)  # f5
            initialise(self, "xavier_normal_matrices")
            return
        self.parent, self.left_child, self.right_child, self.root, self.emission = (
            ResidualNetwork(size, size, rms_norm=config.rms_norm) for _ in range(5)
        )
        initialise(self)
        if config.init_logit_std:
            outputs = [self.ranks_below, self.ranks_above, self.start, self.word_embeddings]
            set_initial_logit_std(self, config.init_logit_std, inputs=[self.symbols], outputs=outputs)

    @property
    def symbol_groups(self) -> tuple[int, ...]:
        return (self.config.nonterminals, self.config.preterminals)

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> RankGrammar:
        precision = self.precision if self.training else None
        symbols, (split, _), word_embeddings = self.select_tables()
        every = symbols.shape[0]
        if self.config.released:
            below, above, bias = self.ranks, self.ranks, self.word_bias
            first_rows = self.active_dropout().first_rows
            outputs = [first_rows(self.root_scores.weight), first_rows(self.root_scores.bias)]
            (start,) = apply_networks(self.start, [self.root], precision)
            root = F.linear(start[0].to(outputs[0].dtype), *outputs)
            parents = apply_network(self.parent, symbols[:split], precision)
            left, right = (apply_network(child, symbols, precision) for child in (self.left_child, self.right_child))
            (tags,) = apply_networks(symbols, [self.emission], precision, [(split, every)])
        else:
            below, above, bias = self.ranks_below, self.ranks_above, None
            networks = (self.parent, self.left_child, self.right_child, self.root, self.emission)
            rows = ((0, split), (0, every), (0, every), (0, split), (split, every))
            parents, left, right, roots, tags = apply_networks(symbols, networks, precision, rows)  # type: ignore[arg-type]
            root = roots.to(self.start.dtype) @ self.start[0]
        up = rule_softmax(parents.to(self.start.dtype) @ below.T, least=LEAST_FACTOR)
        to_left, to_right = rule_probabilities(above, left, right, precision=precision, least=LEAST_FACTOR)
        emissions = make_emissions(tags, word_embeddings, precision, self.training, bias)
        return RankGrammar(rule_softmax(root), up, to_left, to_right, emissions, precision)
