"""Checked arguments of the dense inside algorithm, which every backend receives."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.arguments import check_bonus, check_lengths, check_probabilities, check_rule_shape, check_word_shape


@dataclass(frozen=True, slots=True)
class DenseArguments:
    """Checked arguments of the dense inside algorithm; ``lengths`` is None if every sentence has n words."""

    log_emissions: Tensor  # [B, n, P]
    root: Tensor  # [N] or [B, N]
    rules: Tensor  # [N, S, S] or [B, N, S, S], S = N + P
    lengths: Tensor | None  # [B] int64, on the CPU
    span_bonus: Tensor | None  # [B, n + 1, n + 1], or one for each nonterminal, [B, n + 1, n + 1, N]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """B, n, N, P."""
        batch, n, preterminals = self.log_emissions.shape
        return batch, n, self.root.shape[-1], preterminals

    @property
    def ends(self) -> Tensor:
        """The length of each sentence, [B], on the device of the other tensors."""
        batch, n, _ = self.log_emissions.shape
        device = self.log_emissions.device
        return torch.full((batch,), n, device=device) if self.lengths is None else self.lengths.to(device)

    @property
    def words(self) -> Tensor:
        """The log-emissions, which are -inf beyond the end of a sentence: [B, n, P]."""
        if self.lengths is None:
            return self.log_emissions
        position = torch.arange(self.log_emissions.shape[1], device=self.log_emissions.device)
        return self.log_emissions.masked_fill((position >= self.ends[:, None])[..., None], -math.inf)

    @property
    def batched_rules(self) -> bool:
        """Whether the rules have a batch dimension."""
        return self.rules.dim() == 4

    def of_sentences(self, rows: Tensor) -> "DenseArguments":
        """Return the arguments of some sentences of the batch."""
        return DenseArguments(
            self.log_emissions[rows],
            self.root[rows] if self.root.dim() == 2 else self.root,
            self.rules[rows] if self.batched_rules else self.rules,
            None if self.lengths is None else self.lengths[rows.cpu()],
            None if self.span_bonus is None else self.span_bonus[rows],
        )


def check_dense_arguments(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> DenseArguments:
    """Check shapes, dtypes and values of the arguments of ``dense_inside``, and convert to one floating-point dtype.

    InputError names what is wrong.
    """
    batch, n, preterminals = check_word_shape(log_emissions)
    nonterminals = root.shape[-1] if root.dim() else 0
    symbols = nonterminals + preterminals
    for name, tensor, tail in (("root", root, (nonterminals,)), ("rules", rules, (nonterminals, symbols, symbols))):
        check_rule_shape(name, tensor, tail, batch, f"B = {batch}, N = {nonterminals}, P = {preterminals}")
        check_probabilities(name, tensor)
    dtype = torch.promote_types(log_emissions.dtype, torch.float32)
    return DenseArguments(
        log_emissions.to(dtype),
        root.to(dtype),
        rules.to(dtype),
        check_lengths(lengths, batch, n),
        check_bonus(span_bonus, batch, n, dtype),
    )
