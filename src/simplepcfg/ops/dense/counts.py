"""Marginals of preterminals and expected rule counts of an ordinary PCFG."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.dense.arguments import DenseArguments, check_dense_arguments
from simplepcfg.ops.dense.backward import Wanted
from simplepcfg.ops.dense.scaled import FilledChart


@dataclass(frozen=True, slots=True)
class DenseRuleCounts:
    """Expected numbers of uses of S → A and of A → B C, in the shapes of the rules."""

    root: Tensor  # [N] or [B, N]
    rules: Tensor  # [N, S, S] or [B, N, S, S]

    @property
    def parents(self) -> Tensor:
        """The expected number of uses of each nonterminal, [N] or [B, N]."""
        return self.rules.sum((-1, -2))

    @property
    def preterminals(self) -> Tensor:
        """The expected number of uses of each preterminal, [P] or [B, P]."""
        both = self.rules.sum((-3, -1)) + self.rules.sum((-3, -2))
        return both[..., self.rules.shape[-3] :]


@without_autocast
def dense_tag_marginals(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each preterminal over each word, given the sentence.

    The arguments are those of ``dense_inside``. Returns ``(log_z, marginals)``: ``[B]`` and ``[B, n, P]``.
    """
    arguments = check_dense_arguments(log_emissions, root, rules, lengths, span_bonus)
    log_z, words, _, _ = _expected(arguments, Wanted(words=True))
    return log_z, torch.zeros_like(arguments.log_emissions) if words is None else words


@without_autocast
def dense_rule_counts(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> tuple[Tensor, DenseRuleCounts]:
    """Compute the expected number of uses of each rule in the derivations of the sentences.

    The arguments are those of ``dense_inside``. Returns ``(log_z, counts)``: ``[B]``, and counts in the shapes of the
    rules, summed over the sentences if the rules have no batch dimension. A sentence of n words adds 1 to the counts of
    the root and n − 1 to those of the rules.
    """
    arguments = check_dense_arguments(log_emissions, root, rules, lengths, span_bonus)
    log_z, _, by_root, by_rules = _expected(arguments, Wanted(root=True, rules=True))
    if by_root is None or by_rules is None:  # a sentence of one word has no tree
        return log_z, DenseRuleCounts(torch.zeros_like(root), torch.zeros_like(rules))
    return log_z, DenseRuleCounts(by_root.mul_(arguments.root.detach()), by_rules.mul_(arguments.rules.detach()))


def _expected(arguments: DenseArguments, wanted: Wanted) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Compute log Z and its derivatives without autograd; the derivatives are None for sentences of one word."""
    with torch.no_grad():
        if arguments.sizes[1] == 1:
            return arguments.log_emissions.new_full((arguments.sizes[0],), -math.inf), None, None, None
        chart = FilledChart(arguments)
        return chart.log_z, *chart.backward(torch.ones_like(chart.log_z), wanted)
