"""What is known after each prefix of a sentence, and after prefixes that grow word by word."""

from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from simplepcfg.ops.logs import log_share


@dataclass(frozen=True, slots=True)
class TagPrefixes:
    """Probabilities of each prefix w_0 … w_{m−1}, m = 0 … n, and of the next preterminal or state.

    Grammars with few symbols and hidden Markov models answer with these.
    """

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


class GrowingTags:
    """S prefixes of equal length under one grammar, initially a single empty one; in float64, without gradients.

    prefix = grammar.growing_prefix()
    prefix.push(log_emissions)        # [S, P], the log-emissions of the next word of each prefix
    prefix.next_tags()                # [S, P], P(preterminal of the following word given the prefix)
    """

    by_prefix: ClassVar[tuple[str, ...]] = ()  # names of the tensors that have a row for each prefix

    log_prefix: Tensor  # [S]: log P(a sentence begins with the prefix)
    log_sentence: Tensor  # [S]: log P(the prefix is a whole sentence)
    length = 0  # number of words

    def copy(self) -> Self:
        """Return an independent copy, which shares all tensors, because none is modified in place."""
        return copy(self)

    def select(self, indices: Tensor) -> None:
        """Keep the prefixes with these indices, in this order; an index may occur repeatedly."""
        indices = indices.to(self.log_prefix.device)
        for name in self.by_prefix:
            setattr(self, name, getattr(self, name)[indices])

    def next_tags(self) -> Tensor:
        """Compute P(preterminal of the next word given the prefix): [S, P]; 0 after a prefix of probability 0."""
        raise NotImplementedError

    def log_end(self) -> Tensor:
        """Compute log P(the sentence ends here given the prefix): [S]; −inf after a prefix of probability 0."""
        return log_share(self.log_sentence, self.log_prefix)

    def bytes_per_prefix(self, longest: int) -> int:
        """Return the size of the chart of one prefix of so many words, in bytes."""
        raise NotImplementedError

    def push(self, log_emissions: Tensor) -> None:
        """Add a word to each prefix, given its log-emissions [S, P]."""
        raise NotImplementedError

    def push_all(self, log_emissions: Tensor) -> None:
        """Add words to every prefix, given their log-emissions [m, P]."""
        for word in log_emissions:
            self.push(word.expand(len(self.log_prefix), -1))
