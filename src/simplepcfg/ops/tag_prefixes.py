"""What is known after each prefix of a sentence, as grammars with few symbols and hidden Markov models answer it."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TagPrefixes:
    """Probabilities of each prefix w_0 … w_{m−1}, m = 0 … n, and of the next preterminal or state."""

    log_prefix: Tensor  # [B, n + 1] float64: log P(a sentence begins with the prefix); −inf beyond the length
    log_sentence: Tensor  # [B, n + 1] float64: log P(the prefix is a whole sentence)
    tags: Tensor  # [B, n + 1, P]: P(preterminal of the next word given the prefix); 0 after a prefix of probability 0

    @property
    def preterminals(self) -> int:
        """Number of preterminals."""
        return self.tags.shape[-1]

    def next_tags(self, positions: slice, kind: torch.dtype = torch.float64) -> Tensor:
        """Return P(preterminal of the next word given the prefix): [B, positions, P] in the dtype ``kind``."""
        return self.tags[:, positions].to(kind)

    def tags_at(self, sentences: Tensor, positions: Tensor, kind: torch.dtype = torch.float64) -> Tensor:
        """Return ``next_tags`` of some prefixes, given by sentence [R] and position [R]: [R, P]."""
        return self.tags[sentences, positions].to(kind)
