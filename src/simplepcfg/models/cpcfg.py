"""C-PCFG: the compound PCFG, all of whose rules read each sentence's vector z (Kim, Dyer and Rush, 2019)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from simplepcfg.grammars import DenseGrammar
from simplepcfg.models.compound import CompoundConfig, CompoundModel
from simplepcfg.models.npcfg import DenseModel, DensePCFGConfig
from simplepcfg.models.settings import ModelSizes, setting


@dataclass(frozen=True, kw_only=True)
class CPCFGConfig(CompoundConfig, DensePCFGConfig):
    """Sizes of a C-PCFG."""

    kind: Literal["c-pcfg"] = setting("c-pcfg", "Which model.")

    def sizes(self, batch: int) -> ModelSizes:
        """Return the tensor sizes of a batch, in which each sentence has its own rules and emissions."""
        return self.sizes_of(grammars=batch)


class CPCFG(DenseModel, CompoundModel):
    """Compound PCFG: the N-PCFG with a latent z ~ N(0, I) of each sentence beside every embedding:

    root[A]        ∝ exp(u_A · f1([w_S; z]) + a_A)
    rules[A, B, C] ∝ exp(v_BC · [w_A; z] + b_BC)       over all pairs of symbols B, C
    emit[T, v]     ∝ exp(f2([w_T; z]) · u_v + c_v)     over all words v
    """

    def __init__(self, config: CPCFGConfig, vocabulary_size: int) -> None:
        super().__init__(config, vocabulary_size)
        self._build(config, vocabulary_size, config.latent)

    def grammar_of(self, z: Tensor) -> DenseGrammar:
        split = self.config.nonterminals
        root = self.root(_with_z(self.start, z)[:, 0])  # [B, D]
        # A linear layer of [w; z] is the sum of one of w and one of z; each is computed once and not for every pair.
        rules = self.rules(self.symbols[:split]) + self.sentence_rules(z)[:, None]  # [B, N, S²]
        tags = self.emission(_with_z(self.symbols[split:], z))  # [B, P, D]
        return self._grammar_of(root, rules, tags)


def _with_z(rows: Tensor, z: Tensor) -> Tensor:
    """Return [w; z], [B, X, D + Z], for every row w of [X, D] and every z of [B, Z]."""
    batch, count = z.shape[0], rows.shape[0]
    return torch.cat((rows.expand(batch, -1, -1), z[:, None].expand(-1, count, -1)), -1)
