"""Rank-PCFG: rules as a sum over ranks, computed in rank space (Yang, Liu and Tu, 2022)."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from simplepcfg.grammars import RankGrammar
from simplepcfg.models.checks import check_blocks, check_deviation, check_sizes, check_vocabulary
from simplepcfg.models.exact import ExactModel
from simplepcfg.models.networks import ResidualNetwork, initialise_xavier
from simplepcfg.models.parts import emissions_of, network_outputs
from simplepcfg.models.sizes import ModelSizes
from simplepcfg.models.starts import spread_scores
from simplepcfg.models.thinning import Thinning, step_tables
from simplepcfg.ops.neural import LEAST_FACTOR, rule_probabilities, rule_softmax


@dataclass(frozen=True, kw_only=True)
class RankPCFGConfig:
    """Sizes of a rank-PCFG."""

    # Read by pydantic where it is installed: a misspelt key is an error, not ignored.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    kind: Literal["rank-pcfg"] = field(default="rank-pcfg", metadata={"description": "Which model."})
    nonterminals: int = field(default=128, metadata={"description": "Number of nonterminal symbols, N."})
    preterminals: int = field(default=256, metadata={"description": "Number of preterminal symbols, P."})
    rank: int = field(default=128, metadata={"description": "Terms of the sum that a rule's probability is, R."})
    embedding: int = field(
        default=512, metadata={"description": "Width of symbol, rank and word embeddings and of the networks."}
    )
    residual_blocks: int = field(default=2, metadata={"description": "Residual blocks in each of the networks."})
    normalised: bool = field(
        default=False,
        metadata={
            "description": "Features, which the networks give, are brought to one size for all symbols, with gains "
            "that are learned: scores then cannot grow by the networks' layers multiplying."
        },
    )
    initial_scores: float = field(
        default=0.0,
        metadata={
            "description": "Standard deviation of the rule scores at the start; 0 takes Xavier-normal embeddings, "
            "whose scores are all near 0."
        },
    )

    def __post_init__(self) -> None:
        check_sizes(self, "nonterminals", "preterminals", "rank", "embedding")
        check_blocks(self)
        check_deviation(self)

    def sizes(self, batch: int) -> ModelSizes:
        """What a batch of so many sentences holds; the chart is over ranks."""
        states, tags, rank = self.nonterminals, self.preterminals, self.rank
        return ModelSizes(
            activations=(4 * states + 3 * tags) * self.embedding * (1 + 3 * self.residual_blocks),
            rules=rank_rules(states, tags, rank),
            tags=tags,
            span_numbers=rank,
            rule_keys="model.rank, model.nonterminals or model.preterminals",
        )


def rank_rules(states: int, tags: int, rank: int) -> int:
    """Numbers in the three factors and in both rule matrices of the simple grammar over ranks."""
    return states * rank + 2 * rank * (states + tags) + 2 * rank * (rank + tags)


class RankPCFG(ExactModel):
    """π(A → B C) = Σ_r U[A, r] V[r, B] W[r, C], from embeddings w of symbols and a, b of ranks:

    root[A]    ∝ exp(u_S · f4(w_A))
    U[A, r]    ∝ exp(f1(w_A) · a_r)     over all ranks r
    V[r, B]    ∝ exp(b_r · f2(w_B))     over all symbols B
    W[r, C]    ∝ exp(b_r · f3(w_C))     over all symbols C
    emit[T, v] ∝ exp(f5(w_T) · u_v)     over all words v
    """

    def __init__(self, config: RankPCFGConfig, vocabulary_size: int) -> None:
        super().__init__()
        check_vocabulary(vocabulary_size)
        self.config = config
        size = config.embedding
        self.symbols = nn.Parameter(torch.empty(config.nonterminals + config.preterminals, size))
        self.ranks_below = nn.Parameter(torch.empty(config.rank, size))  # a: a nonterminal's choice
        self.ranks_above = nn.Parameter(torch.empty(config.rank, size))  # b: chooses the children
        self.start = nn.Parameter(torch.empty(1, size))
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))
        self.parent = ResidualNetwork.of(config)  # f1
        self.left_child = ResidualNetwork.of(config)  # f2
        self.right_child = ResidualNetwork.of(config)  # f3
        self.root = ResidualNetwork.of(config)  # f4
        self.emission = ResidualNetwork.of(config)  # f5
        initialise_xavier(self)
        if config.initial_scores:
            scored = [self.ranks_below, self.ranks_above, self.start, self.word_embeddings]
            spread_scores(self, config.initial_scores, read=[self.symbols], scored=scored)
        self.precision: str | None = None  # of the matrix products in training; evaluation is as exact as float32
        self.thinning: Thinning | None = None  # what a training step leaves out

    @property
    def symbol_groups(self) -> tuple[int, ...]:
        """Nonterminals and preterminals."""
        return (self.config.nonterminals, self.config.preterminals)

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> RankGrammar:
        """The grammar of the present parameters; it is the same for every sentence, so the arguments are not used."""
        precision = self.precision if self.training else None
        symbols, (split, _), word_embeddings = step_tables(self)
        every = symbols.shape[0]
        networks = (self.parent, self.left_child, self.right_child, self.root, self.emission)
        rows = ((0, split), (0, every), (0, every), (0, split), (split, every))
        parents, left, right, roots, tags = network_outputs(symbols, networks, precision, rows)
        wide = self.start.dtype
        root = rule_softmax(roots.to(wide) @ self.start[0])
        up = rule_softmax(parents.to(wide) @ self.ranks_below.T, least=LEAST_FACTOR)
        to_left, to_right = rule_probabilities(self.ranks_above, left, right, precision=precision, least=LEAST_FACTOR)
        emissions = emissions_of(tags, word_embeddings, precision, self.training)
        return RankGrammar(root, up, to_left, to_right, emissions, precision)
