"""LHMM: a hidden Markov model whose transitions have low rank, so that many states cost little (Chiu et al. 2021)."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from simplepcfg.grammars import HiddenMarkovModel
from simplepcfg.models.neural_hmm import HiddenMarkovConfig, NeuralHMM
from simplepcfg.models.settings import ModelSizes, setting
from simplepcfg.models.shared_layers import with_bias_column
from simplepcfg.ops.neural import LEAST_FACTOR, log_normaliser, row_softmax, rule_softmax


@dataclass(frozen=True, kw_only=True)
class LowRankHMMConfig(HiddenMarkovConfig):
    """Sizes of a low-rank HMM, the LHMM."""

    kind: Literal["lhmm"] = setting("lhmm", "Which model.")
    rank: int = setting(4096, "Kernel features, r, the rank of the transitions: at most S.")

    def sizes(self, batch: int) -> ModelSizes:
        rules, both = 2 * self.states * self.rank, self.states + self.rank
        return replace(super().sizes(batch), rules=rules, word_numbers=both, rule_keys="model.states and model.rank")


class LowRankHMM(NeuralHMM):
    """Neural HMM whose transitions are a softmax with a kernel of r features, φ(x) = exp(W x):

        transition[s, s'] = φ(a_s) · φ(b_s') / Σ_t φ(a_s) · φ(b_t)

    which is a choice of a feature and then of a state, T = U V with

        V[k, s'] ∝ exp(W_k · b_s')                               over all states s'
        U[s, k]  ∝ exp(W_k · a_s) · Σ_t exp(W_k · b_t)           over all features k

    The start has the same kernel with the norms that make it an estimate of exp(x · y),

        start[s] ∝ φ(f1(w_S)) · φ(b_s) exp(−‖b_s‖² / 2)

    and emissions are the neural HMM's. With ``networks = "residual"`` a and b are f2(w_s) and f3(w_s) of one table w,
    and the start is the neural HMM's. Word id 0 is padding and is never emitted.
    """

    config: LowRankHMMConfig

    def __init__(self, config: LowRankHMMConfig, vocabulary_size: int) -> None:
        super().__init__(config, vocabulary_size, config.rank)
        if config.released:
            orthogonal_blocks(self.features)

    @property
    def kernel_features(self) -> int:
        """Number of kernel features, some of which a step can leave out."""
        return self.config.rank

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> HiddenMarkovModel:
        precision = self.precision if self.training else None
        start, source, target, emissions = self._parts(precision)
        rows = self.active_dropout().kernel_rows
        features = (self.features if rows is None else self.features.index_select(0, rows)).to(target.dtype)
        # The log-weight of each feature is added to its logits. Their mean cancels in the softmax, and subtracting it
        # makes rounding errors smaller.
        weight = log_normaliser(features, target, precision=precision)
        weight = (weight - weight.mean()).to(target.dtype)
        into = row_softmax(*with_bias_column(source, features, weight), precision=precision, least=LEAST_FACTOR)
        out_of = row_softmax(features, target, precision=precision, least=LEAST_FACTOR)
        if start is None:
            start = self._released_start(features, weight, out_of, target)
        return HiddenMarkovModel(start, (into, out_of), emissions, precision)

    def _released_start(self, features: Tensor, weight: Tensor, out_of: Tensor, target: Tensor) -> Tensor:
        """Return start[s] ∝ φ(f1(w_S)) · φ(b_s) exp(−‖b_s‖² / 2), [S]: choose a feature, then a state.

        The logits of the features differ by tens from the first step on, so they are not rounded to bfloat16.
        """
        choice = rule_softmax(features @ self.first(self.start)[0] + weight)  # [r]
        chosen = (choice[None].to(out_of.dtype) @ out_of)[0]  # [S]
        return rule_softmax(chosen.to(weight.dtype).log() - target.square().sum(1) / 2)


@torch.no_grad()
def orthogonal_blocks(table: Tensor) -> None:
    """Draw rows, in place, orthogonal within blocks of as many rows as columns, with the norms of normal vectors."""
    count, size = table.shape
    blocks = -(-count // size)
    directions = [torch.linalg.qr(torch.randn(size, size)).Q.T for _ in range(blocks)]
    lengths = torch.randn(count, size).norm(dim=1, keepdim=True)
    table.copy_(torch.cat(directions)[:count] * lengths)
