"""SC-PCFG: the compound simple PCFG, some of whose networks read each sentence's vector z beside the symbol."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from simplepcfg.errors import InputError
from simplepcfg.grammars import SimpleGrammar
from simplepcfg.models.checks import check_blocks, check_deviation, check_sizes, check_vocabulary
from simplepcfg.models.compound import CompoundConfig, CompoundModel
from simplepcfg.models.networks import ResidualNetwork, initialise_xavier
from simplepcfg.models.parts import emissions_of, network_outputs
from simplepcfg.models.sizes import ModelSizes
from simplepcfg.models.starts import spread_scores
from simplepcfg.ops.neural import rule_softmax, sentence_rule_probabilities


@dataclass(frozen=True, kw_only=True)
class SimpleCPCFGConfig(CompoundConfig):
    """Sizes of an SC-PCFG."""

    # Read by pydantic where it is installed: a misspelt key is an error, not ignored.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    kind: Literal["sc-pcfg"] = field(default="sc-pcfg", metadata={"description": "Which model."})
    nonterminals: int = field(default=128, metadata={"description": "Number of nonterminal symbols, N."})
    preterminals: int = field(default=256, metadata={"description": "Number of preterminal symbols, P."})
    embedding: int = field(
        default=512, metadata={"description": "Width of symbol and word embeddings and of the networks."}
    )
    residual_blocks: int = field(
        default=2, metadata={"description": "Residual blocks in each of the networks f1 to f5."}
    )
    compound_rules: Literal["right", "parent"] = field(
        default="right",
        metadata={
            "description": "Whose network reads z besides that of the emissions: the right child's, f3 (left rules are "
            "the same for every sentence), or the parent's, f1 (both sides differ), as the authors' code has it."
        },
    )
    normalised: bool = field(
        default=False,
        metadata={
            "description": "Features, which the networks f1 to f5 give, are brought to one size for all symbols, with "
            "gains that are learned: scores then cannot grow by the networks' layers multiplying."
        },
    )
    initial_scores: float = field(
        default=0.0,
        metadata={
            "description": "Standard deviation of the rule scores at the start; 0 takes the paper's Xavier-normal "
            "embeddings, whose scores are all near 0."
        },
    )

    def __post_init__(self) -> None:
        check_sizes(self, "nonterminals", "preterminals", "embedding")
        check_blocks(self)
        check_deviation(self)
        self.check_compound()
        if self.compound_rules not in ("right", "parent"):
            raise InputError(f"model.compound_rules = {self.compound_rules!r}; take right or parent")

    def sizes(self, batch: int) -> ModelSizes:
        """What a batch of so many sentences holds, each with rules and emissions of its own."""
        states, tags = self.nonterminals, self.preterminals
        # What every sentence has of its own is f3 of all symbols or f1 of the nonterminals, and f5.
        own = states + tags if self.compound_rules == "right" else states
        shared = 4 * states + 2 * tags - own
        return ModelSizes(
            activations=(shared + batch * (own + tags)) * self.embedding * (1 + 3 * self.residual_blocks),
            rules=2 * batch * states * (states + tags),
            tags=tags,
            emission_tables=batch,
            span_numbers=states,
            rule_keys="training.batch_size, model.nonterminals or model.preterminals",
        )


class SimpleCPCFG(CompoundModel):
    """As SN-PCFG, with z ~ N(0, I) for each sentence x:

        root[A]     ∝ exp(u_S · f4(w_A))
        left[A, B]  ∝ exp(f1(w_A) · f2(w_B))          over all symbols B
        right[A, C] ∝ exp(f1(w_A) · f3([w_C; z]))     over all symbols C
        emit[T, v]  ∝ exp(f5([w_T; z]) · u_v)         over all words v

    With ``compound_rules = "parent"`` f1 reads [w_A; z] and f3 reads w_C alone.
    """

    def __init__(self, config: SimpleCPCFGConfig, vocabulary_size: int) -> None:
        check_vocabulary(vocabulary_size)
        super().__init__(config, vocabulary_size)
        self.config = config
        size, latent = config.embedding, config.latent
        on_right = config.compound_rules == "right"
        self.symbols = nn.Parameter(torch.empty(config.nonterminals + config.preterminals, size))
        self.start = nn.Parameter(torch.empty(1, size))
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))
        self.parent = ResidualNetwork.of(config, 0 if on_right else latent)  # f1
        self.left_child = ResidualNetwork.of(config)  # f2
        self.right_child = ResidualNetwork.of(config, latent if on_right else 0)  # f3
        self.root = ResidualNetwork.of(config)  # f4
        self.emission = ResidualNetwork.of(config, latent)  # f5
        initialise_xavier(self)
        if config.initial_scores:
            scored = [self.start, self.word_embeddings]
            spread_scores(self, config.initial_scores, read=[self.symbols], scored=scored)

    def grammar_of(self, z: Tensor) -> SimpleGrammar:
        """The grammars of sentence vectors [B, Z], as one batch of rules."""
        precision = self.precision if self.training else None
        split, every = self.config.nonterminals, self.symbols.shape[0]
        on_right = self.config.compound_rules == "right"
        single = self.parent if not on_right else self.right_child
        shared = [self.parent if on_right else self.right_child, self.left_child, self.root]
        rows = [(0, split) if on_right else (0, every), (0, every), (0, split)]
        one, left, roots = network_outputs(self.symbols, shared, precision, rows)
        own = self._of_sentences(single, (0, every) if on_right else (0, split), z, precision)  # [B, rows, D]
        parents, right = (one, own) if on_right else (own, one)
        rules = sentence_rule_probabilities(parents, left, right, precision=precision)
        root = rule_softmax(roots.to(self.start.dtype) @ self.start[0]).expand(z.shape[0], -1)
        tags = self._of_sentences(self.emission, (split, every), z, precision)
        emissions = emissions_of(tags, self.word_embeddings, precision, self.training)
        return SimpleGrammar(root, rules[0], rules[1], emissions, precision)

    def _of_sentences(
        self, network: ResidualNetwork, rows: tuple[int, int], z: Tensor, precision: str | None
    ) -> Tensor:
        """A network of [w; z] for some symbols w and every z: [B, symbols, D]."""
        batch, count = z.shape[0], rows[1] - rows[0]
        symbols = self.symbols[rows[0] : rows[1]].expand(batch, -1, -1)
        inputs = torch.cat((symbols, z[:, None].expand(-1, count, -1)), -1).flatten(0, 1)  # [B · symbols, D + Z]
        (found,) = network_outputs(inputs, [network], precision)
        return found.view(batch, count, -1)
