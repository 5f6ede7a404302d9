"""Expected rule counts."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Expected numbers of uses of S → A, of left children A → B · and of right children A → · C."""

    root: Tensor
    left: Tensor
    right: Tensor

    @property
    def parents(self) -> Tensor:
        """The expected number of uses of each nonterminal, [N] or [B, N]."""
        return self.left.sum(-1)

    @property
    def preterminals(self) -> Tensor:
        """The expected number of uses of each preterminal, [P] or [B, P]."""
        nonterminals = self.left.shape[-2]
        return (self.left + self.right)[..., nonterminals:].sum(-2)
