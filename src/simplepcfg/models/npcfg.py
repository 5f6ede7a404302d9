"""N-PCFG: the neural PCFG with a probability for every A → B C (Kim, Dyer and Rush, 2019)."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from simplepcfg.grammars import DenseGrammar
from simplepcfg.models.checks import check_blocks, check_deviation, check_sizes, check_vocabulary
from simplepcfg.models.exact import ExactModel
from simplepcfg.models.networks import ResidualNetwork, initialise_xavier
from simplepcfg.models.parts import emissions_of
from simplepcfg.models.sizes import ModelSizes

# Rules are held once more in the blocks that products read, and so are their gradients.
RULE_COPIES = 2


@dataclass(frozen=True, kw_only=True)
class NPCFGConfig:
    """Sizes of an N-PCFG."""

    # Read by pydantic where it is installed: a misspelt key is an error, not ignored.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    # Its inside algorithm asks once a batch whether a sentence left float32's range, which no CUDA graph can.
    capturable: ClassVar[bool] = False

    kind: Literal["n-pcfg"] = field(default="n-pcfg", metadata={"description": "Which model."})
    nonterminals: int = field(default=30, metadata={"description": "Number of nonterminal symbols, N."})
    preterminals: int = field(default=60, metadata={"description": "Number of preterminal symbols, P."})
    embedding: int = field(
        default=256, metadata={"description": "Width of symbol and word embeddings and of the networks."}
    )
    residual_blocks: int = field(
        default=2, metadata={"description": "Residual blocks in each of the networks of root and emissions."}
    )
    initial_scores: float = field(
        default=0.0,
        metadata={
            "description": "Standard deviation of the rule scores at the start; 0 takes Xavier-normal weights, whose "
            "scores are all near 0."
        },
    )

    def __post_init__(self) -> None:
        check_sizes(self, "nonterminals", "preterminals", "embedding")
        check_blocks(self)
        check_deviation(self)

    def sizes(self, batch: int) -> ModelSizes:
        """What a batch of so many sentences holds."""
        return dense_sizes(self, grammars=1)


def dense_sizes(config: Any, grammars: int) -> ModelSizes:
    """Of models with a dense rule tensor for each of so many grammars."""
    states, tags = config.nonterminals, config.preterminals
    layers = 1 + 3 * config.residual_blocks
    return ModelSizes(
        activations=grammars * (1 + tags) * config.embedding * layers,
        rules=RULE_COPIES * grammars * states * (states + tags) ** 2,
        tags=tags,
        emission_tables=grammars,
        span_numbers=states,
        word_numbers=states**2,  # a word's matrices of parent and sibling
        full_precision=True,
    )


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
            # w · v then has this deviation: symbols differ from the start instead of having to drift apart.
            for weights in (self.symbols, self.word_embeddings, self.rules.weight):
                nn.init.normal_(weights, std=config.initial_scores**0.5 / size**0.25)
        self.precision: str | None = None  # of the products that give emissions in training

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> DenseGrammar:
        """The grammar of the present parameters; it is the same for every sentence, so the arguments are not used."""
        split, every = self.config.nonterminals, self.symbols.shape[0]
        root = self.root_scores(self.root(self.start[0])).softmax(-1)
        rules = self.rules(self.symbols[:split]).softmax(-1).view(split, every, every)
        precision = self.precision if self.training else None
        emissions = emissions_of(self.emission(self.symbols[split:]), self.word_embeddings, precision, self.training)
        return DenseGrammar(root, rules, emissions)
