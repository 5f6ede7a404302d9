"""SC-PCFG: the compound simple PCFG, whose parent and emission networks read each sentence's vector z."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplepcfg.grammars import SimpleGrammar
from simplepcfg.grammars.sharded import ShardedGrammar
from simplepcfg.models.compound import CompoundConfig, CompoundModel
from simplepcfg.models.initialisation import set_initial_logit_std
from simplepcfg.models.networks import BLOCKS, FeatureNorm, ResidualLayer, ResidualNetwork, initialise
from simplepcfg.models.settings import ModelSizes, SymbolConfig, setting
from simplepcfg.models.shared_layers import (
    apply_networks,
    bf16_autocast,
    make_emissions,
    make_word_bias,
    root_probabilities,
)
from simplepcfg.ops.neural import sentence_rule_probabilities


@dataclass(frozen=True, kw_only=True)
class SimpleCPCFGConfig(CompoundConfig, SymbolConfig):
    """Sizes of an SC-PCFG."""

    kind: Literal["sc-pcfg"] = setting("sc-pcfg", "Which model.")
    networks: Literal["released", "paper"] = setting(
        "released", "`released`: those of the authors' program. `paper`: those of the paper's appendix."
    )
    rms_norm: bool = setting(
        False,
        "RMS normalisation of the networks' outputs, with learned gains, which bounds the growth of logits.",
    )

    def sizes(self, batch: int) -> ModelSizes:
        """Return the tensor sizes of a batch, in which each sentence has its own rules and emissions."""
        states, tags = self.nonterminals, self.preterminals
        shared, own = 4 * (states + tags) + states, batch * (2 * states + tags * (1 + 3 * BLOCKS))
        return ModelSizes(
            activations=(shared + own) * self.embedding,
            rules=2 * batch * states * (states + tags),
            tags=tags,
            emission_tables=batch,
            span_numbers=states,
            rule_keys="training.batch_size, model.nonterminals or model.preterminals",
        )


class SentenceLayer(nn.Module):
    """Residual layer w + ReLU(W [w; z] + b) of every symbol embedding w and every sentence vector z.

    The product with W is computed once for every w and once for every z, not for every pair.
    """

    def __init__(self, size: int, latent: int, *, rms_norm: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(size + latent, size)
        self.norm = FeatureNorm(size) if rms_norm else nn.Identity()

    def forward(self, symbols: Tensor, z: Tensor) -> Tensor:
        """Map symbols [X, D] and z [B, Z] to [B, X, D]."""
        return self.norm(symbols + F.relu(joint_linear(self.linear, symbols, z)))


class SentenceNetwork(nn.Module):
    """A linear layer of [w; z] and residual blocks, with optional RMS normalisation."""

    def __init__(self, size: int, latent: int, *, rms_norm: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(size + latent, size)
        self.rest = ResidualNetwork(size, size, rms_norm=rms_norm)
        del self.rest[0]  # `linear` replaces its linear layer.

    def forward(self, symbols: Tensor, z: Tensor) -> Tensor:
        """Map symbols [X, D] and z [B, Z] to [B, X, D]."""
        return self.rest(joint_linear(self.linear, symbols, z))


def joint_linear(layer: nn.Linear, symbols: Tensor, z: Tensor) -> Tensor:
    """Return W [w; z] + b, [B, X, D], for all rows w of [X, D] and all z of [B, Z]."""
    of_symbols, of_z = layer.weight.split((symbols.shape[1], z.shape[1]), 1)
    return (symbols @ of_symbols.T)[None] + F.linear(z, of_z, layer.bias)[:, None]


class SimpleCPCFG(CompoundModel):
    """Compound SN-PCFG, with a latent z ~ N(0, I) of each sentence, as the authors' program has it:

        root[A]     ∝ exp(w_A · w_S)                  over all nonterminals A
        left[A, B]  ∝ exp(f2(w_B) · f3([w_A; z]))     over all symbols B
        right[A, C] ∝ exp(f4(w_C) · f3([w_A; z]))     over all symbols C
        emit[T, v]  ∝ exp(u_v · f5([w_T; z]))         over all words v

    f3 is w_A + ReLU(W [w_A; z] + b), f2 and f4 are residual layers, f5 a linear layer and two residual blocks, and
    every word has a bias. With ``networks = "paper"``, the paper's appendix A, the root is u_A · f1(w_S) with an f1 of
    two residual blocks, and words have no bias.
    """

    def __init__(self, config: SimpleCPCFGConfig, vocabulary_size: int) -> None:
        super().__init__(config, vocabulary_size)
        self.config = config
        size, latent, rms_norm = config.embedding, config.latent, config.rms_norm
        paper = config.networks == "paper"
        self.symbols = nn.Parameter(torch.empty(config.nonterminals + config.preterminals, size))
        self.start = nn.Parameter(torch.empty(1, size))  # w_S
        self.word_embeddings = nn.Parameter(torch.empty(vocabulary_size - 1, size))  # u_v
        if paper:
            self.root_embeddings = nn.Parameter(torch.empty(config.nonterminals, size))  # u_A
            self.root = ResidualNetwork(size, size, rms_norm=rms_norm)  # f1
        else:
            self.word_bias = make_word_bias(vocabulary_size, size)
        self.left_child = ResidualLayer(size, rms_norm=rms_norm)  # f2
        self.parent = SentenceLayer(size, latent, rms_norm=rms_norm)  # f3
        self.right_child = ResidualLayer(size, rms_norm=rms_norm)  # f4
        self.emission = SentenceNetwork(size, latent, rms_norm=rms_norm)  # f5
        initialise(self, "xavier_normal" if paper else "xavier_uniform")
        if config.init_logit_std:
            outputs = [self.start, self.word_embeddings, *([self.root_embeddings] if paper else [])]
            set_initial_logit_std(self, config.init_logit_std, inputs=[self.symbols], outputs=outputs)

    @property
    def symbol_groups(self) -> tuple[int, int]:
        """Numbers of nonterminals and preterminals; with shards, of those that this process has."""
        parts = 1 if self.shards is None else self.shards.size
        return (self.config.nonterminals // parts, self.config.preterminals // parts)

    def grammar_of(self, z: Tensor) -> SimpleGrammar | ShardedGrammar:
        precision = self.precision if self.training else None
        states = self.symbol_groups[0]
        left, right = apply_networks(self.symbols, [self.left_child, self.right_child], precision)
        with bf16_autocast(precision, z.device):
            parents = self.parent(self.symbols[:states], z)
            tags = self.emission(self.symbols[states:], z)
        if self.shards is not None:
            left, right = (self.shards.gather(children, self.symbol_groups, 0) for children in (left, right))
        rules = sentence_rule_probabilities(parents.to(left.dtype), left, right, precision=precision)
        if self.config.networks == "released":
            root_logits, bias = self.symbols[:states] @ self.start[0], self.word_bias
        else:
            (features,) = apply_networks(self.start, [self.root], precision)
            root_logits, bias = self.root_embeddings @ features[0].to(self.root_embeddings.dtype), None
        root = root_probabilities(root_logits, self.shards).expand(z.shape[0], -1)
        emissions = make_emissions(tags, self.word_embeddings, precision, self.training, bias)
        if self.shards is not None:
            return ShardedGrammar(root, *rules, emissions, self.shards, precision)
        return SimpleGrammar(root, *rules, emissions, precision)
