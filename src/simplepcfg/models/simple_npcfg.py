"""SN-PCFG: the neural simple PCFG, whose rule logits are dot products of features of shared symbol embeddings."""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from simplepcfg.errors import InputError
from simplepcfg.grammars import Emissions, SimpleGrammar
from simplepcfg.grammars.emissions import check_words
from simplepcfg.grammars.sharded import ShardedGrammar
from simplepcfg.models.initialisation import initialise_dedicated_preterminals, set_initial_logit_std
from simplepcfg.models.networks import FeatureNetwork, ResidualLayer, ResidualNetwork, initialise
from simplepcfg.models.settings import ModelSizes, SymbolConfig, setting
from simplepcfg.models.shared_layers import Rows, apply_networks, make_emissions, root_probabilities
from simplepcfg.models.step_dropout import DropoutModel
from simplepcfg.ops.neural import rule_probabilities
from simplepcfg.ops.neural.feature_inside import inside_of_features
from simplepcfg.ops.shards import Shards
from simplepcfg.ops.snapshots import Snapshot

# Residual blocks of the emission network in the paper's appendix and in the authors' released program.
PAPER_BLOCKS, RELEASED_BLOCKS = 2, 3


@dataclass(frozen=True, kw_only=True)
class SimpleNPCFGConfig(SymbolConfig):
    """Sizes of an SN-PCFG."""

    kind: Literal["sn-pcfg"] = setting("sn-pcfg", "Which model.")
    networks: Literal["released", "paper"] = setting(
        "released", "`released`: those of the authors' program. `paper`: those of the paper's appendix."
    )
    tied_children: bool = setting(False, "One distribution of left and right children, L = R: the paper's PCFG-IE.")
    shared_embeddings: bool = setting(
        True,
        "A symbol has one embedding; if false, one each as parent, left child, right child and preterminal.",
    )
    rms_norm: bool = setting(
        False,
        "RMS normalisation of the networks' outputs, with learned gains, which bounds the growth of logits.",
    )
    init_emission_logit_std: float = setting(
        0.0,
        "Initial standard deviation of the emission logits; 0 takes model.init_logit_std. Needs that and "
        "model.rms_norm.",
    )
    dedicated_preterminals: float = setting(
        0.0,
        "Initial share of each nonterminal's left probability for dedicated preterminals, P / N "
        "each: it then has words of its own, and trees branch to the right. Needs model.init_logit_std and "
        "model.rms_norm.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init_emission_logit_std and not (self.rms_norm and self.init_logit_std):
            raise InputError(
                f"model.init_emission_logit_std = {self.init_emission_logit_std} needs RMS normalisation and logits of "
                "rules that differ; set model.rms_norm=true and model.init_logit_std=0.1"
            )
        share = self.dedicated_preterminals
        if not 0 <= share < 1:
            raise InputError(f"model.dedicated_preterminals = {share}; it must be at least 0 and below 1")
        if share and not (self.init_logit_std and self.rms_norm):
            raise InputError(
                f"model.dedicated_preterminals = {share} needs logits that differ, of features with RMS normalisation; "
                "set model.init_logit_std=2 and model.rms_norm=true"
            )
        if share and self.tied_children:
            raise InputError(
                f"model.dedicated_preterminals = {share} concerns left children alone; set model.tied_children=false"
            )
        if share and self.preterminals < self.nonterminals:
            raise InputError(
                f"model.dedicated_preterminals = {share} needs a preterminal for each nonterminal; set "
                f"model.preterminals to {self.nonterminals} or more"
            )

    @property
    def emission_blocks(self) -> int:
        """Residual blocks of the emission network."""
        return PAPER_BLOCKS if self.networks == "paper" else RELEASED_BLOCKS

    def sizes(self, batch: int) -> ModelSizes:
        """Return the tensor sizes of a batch, which has the rules of one grammar."""
        states, tags = self.nonterminals, self.preterminals
        return ModelSizes(
            # f3 reads nonterminals, f2 and f4 all symbols, f5 preterminals; a layer keeps its input and its activation.
            activations=(2 * (3 * states + 2 * tags) + tags * (1 + 3 * self.emission_blocks)) * self.embedding,
            rules=2 * states * (states + tags),
            rule_gradient=False,
            tags=tags,
            span_numbers=states,
        )


class SimpleNPCFG(DropoutModel):
    """Neural simple PCFG, with probabilities from embeddings w and networks f2 … f5, as the authors' program has them:

        root[A]     ∝ exp(w_A · w_S)             over all nonterminals A
        left[A, B]  ∝ exp(f2(w_B) · f3(w_A))     over all symbols B
        right[A, C] ∝ exp(f4(w_C) · f3(w_A))     over all symbols C
        emit[T, v]  ∝ exp(u_v · f5(w_T))         over all words v

    f2, f3 and f4 are residual layers, x + ReLU(W x + b); f5 is x + g(x), g a linear layer and three residual blocks.
    With ``networks = "paper"``, the paper's appendix A, the root is u_A · f1(w_S), and f1 and f5 are a linear layer and
    two residual blocks; docs/models.md says why the trees of this form are worse. With
    ``tied_children`` f4 is f2, and so left and right are the same; without ``shared_embeddings`` each network has a w
    of its own. Word id 0 is padding and is never emitted.
    """

    shards: Shards | None = None  # set by `shard_model`

    def __init__(self, config: SimpleNPCFGConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        size, paper, rms_norm = config.embedding, config.networks == "paper", config.rms_norm
        self.symbols = nn.Parameter(torch.empty(self._rows(*self.symbol_groups)[-1][1], size))
        self.start = nn.Parameter(torch.empty(1, size))  # w_S
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))  # u_v
        if paper:
            self.root_embeddings = nn.Parameter(torch.empty(config.nonterminals, size))  # u_A
            self.root = ResidualNetwork(size, size, rms_norm=rms_norm)  # f1
        self.left_child = ResidualLayer(size, rms_norm=rms_norm)  # f2
        self.parent = ResidualLayer(size, rms_norm=rms_norm)  # f3
        if not config.tied_children:
            self.right_child = ResidualLayer(size, rms_norm=rms_norm)  # f4
        self.emission = ResidualNetwork(
            size, size, config.emission_blocks, outer_residual=not paper, rms_norm=rms_norm
        )  # f5
        initialise(self, "xavier_normal" if paper else "xavier_uniform")
        if config.init_logit_std:
            outputs = [self.start, self.word_embeddings, *([self.root_embeddings] if paper else [])]
            set_initial_logit_std(
                self,
                config.init_logit_std,
                inputs=[self.symbols],
                outputs=outputs,
                words=(config.init_emission_logit_std or config.init_logit_std, self.emission, self.word_embeddings),
            )
            if rms_norm and not paper:  # w_A · w_S has no normalised features, so that w_S alone sets its scale.
                self.start.data.mul_(config.init_logit_std**0.5)
        if config.dedicated_preterminals:
            above, below = (self.symbols[slice(*rows)] for rows in self._rows(*self.symbol_groups)[:2])
            initialise_dedicated_preterminals(above, below, self.parent, self.left_child, config.dedicated_preterminals)
        self._normaliser: tuple[Tensor, Snapshot] | None = None  # known log-normaliser of emissions, and its weights

    @property
    def symbol_groups(self) -> tuple[int, ...]:
        """Numbers of nonterminals and preterminals; with shards, of those that this process has."""
        parts = 1 if self.shards is None else self.shards.size
        return (self.config.nonterminals // parts, self.config.preterminals // parts)

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> SimpleGrammar | ShardedGrammar:
        precision, root, features, emissions = self._parts()
        rules = rule_probabilities(*features, precision=precision)
        if self.shards is not None:
            return ShardedGrammar(root, *rules, emissions, self.shards, precision)
        return SimpleGrammar(root, *rules, emissions, precision)

    def loss(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """See `ExactModel.loss`; here the gradient of the features is computed without that of the rules."""
        if self.shards is not None:
            return super().loss(words, lengths, span_bonus=span_bonus)
        precision, root, features, emissions = self._parts()
        check_words(words, lengths, emissions)
        log_emissions = emissions.log_probabilities(words)
        parents, left, right = features
        return -inside_of_features(
            log_emissions, root, parents, left, right, lengths=lengths, span_bonus=span_bonus, precision=precision
        )

    def _parts(self) -> tuple[str | None, Tensor, tuple[Tensor, ...], Emissions]:
        """Return the precision, the root, the features of parents, left and right children, and the emissions."""
        precision = self.precision if self.training else None
        symbols, counts, word_embeddings = self.select_tables()
        children = [self.left_child] if self.config.tied_children else [self.left_child, self.right_child]
        networks: list[FeatureNetwork] = [self.parent, *children, self.emission]
        features = apply_networks(symbols, networks, precision, self._rows(*counts))
        parents, left, right, preterminals = features[0], features[1], features[-2], features[-1]
        if self.shards is not None:
            left, right = (self.shards.gather(children, counts, 0) for children in (left, right))
        root = root_probabilities(self._root_logits(symbols[: counts[0]], precision), self.shards)
        emissions = make_emissions(
            preterminals, word_embeddings, precision, self.training, log_normaliser=self._known_normaliser()
        )
        return precision, root, (parents, left, right), emissions

    def keep_normaliser(self, log_normaliser: Tensor) -> None:
        """Take the log-normaliser of the emissions [P] as known, until a weight is changed in place."""
        self._normaliser = log_normaliser, Snapshot(*self.parameters())

    def _known_normaliser(self) -> Tensor | None:
        if self._normaliser is None or torch.is_grad_enabled():  # gradients run through the normaliser
            return None
        log_normaliser, snapshot = self._normaliser
        return log_normaliser if snapshot.is_of(*self.parameters()) else None

    def _root_logits(self, nonterminals: Tensor, precision: str | None) -> Tensor:
        """Return the logits of S → A, [N], for the nonterminals with these embeddings [N, D]."""
        if self.config.networks == "released":
            return nonterminals @ self.start[0]
        outputs = self.active_dropout().first_rows(self.root_embeddings)
        (features,) = apply_networks(self.start, [self.root], precision)
        return outputs @ features[0].to(outputs.dtype)

    def _rows(self, nonterminals: int, preterminals: int) -> list[Rows]:
        """Return the rows (start, stop) of the embeddings that each of the networks f3, f2, f4 and f5 reads."""
        every = nonterminals + preterminals
        children = [(0, every)] * (1 if self.config.tied_children else 2)
        rows = [(0, nonterminals), *children, (nonterminals, every)]
        if self.config.shared_embeddings:
            return rows
        return list(pairwise(accumulate((stop - start for start, stop in rows), initial=0)))
