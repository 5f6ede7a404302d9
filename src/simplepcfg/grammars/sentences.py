"""A batch of sentences in the form that the algorithms of a grammar take: log-emissions, lengths, span bonuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from simplepcfg.ops.arguments import lengths_tensor


class SentenceOptions(TypedDict):
    """Keyword arguments that describe the sentences of a batch."""

    lengths: Tensor | None
    span_bonus: Tensor | None


class NumericOptions(TypedDict):
    """Keyword arguments that choose the precision of matrix products and the backend."""

    precision: str | None
    backend: str


@dataclass(frozen=True, slots=True)
class Sentences:
    """A batch of sentences after the emissions have been looked up."""

    log_emissions: Tensor  # [B, n, P]
    lengths: Tensor | None = None  # [B]; None where all sentences have n words
    span_bonus: Tensor | None = None  # [B, n + 1, n + 1]: log-weights of spans, -inf where a span is forbidden

    @classmethod
    def of(cls, log_emissions: Tensor, lengths: Tensor | None, span_bonus: Tensor | None = None) -> Sentences:
        """Return the sentences, with lengths that were given as a list in a tensor."""
        if lengths is not None:
            lengths = lengths_tensor(lengths, log_emissions.shape[0])
        return cls(log_emissions, lengths, span_bonus)

    @property
    def options(self) -> SentenceOptions:
        """The lengths and span bonuses as keyword arguments."""
        return {"lengths": self.lengths, "span_bonus": self.span_bonus}

    def last_posts(self) -> tuple[Tensor, Tensor]:
        """Indices of each sentence and of its end in a tensor [B, n + 1, ...]: [B] each, on the emissions' device."""
        batch, n, _ = self.log_emissions.shape
        device = self.log_emissions.device
        ends = torch.full((batch,), n, device=device) if self.lengths is None else self.lengths.to(device)
        return torch.arange(batch, device=device), ends


def requires_graph(*tensors: Tensor | None) -> bool:
    """Whether an answer computed from these tensors must be differentiable."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
