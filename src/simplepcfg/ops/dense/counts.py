"""What a sentence's derivations are expected to use: tags and rules."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.dense.arguments import DenseArguments, check_dense_arguments
from simplepcfg.ops.dense.backward import Wanted
from simplepcfg.ops.dense.scaled import FilledChart


@dataclass(frozen=True, slots=True)
class DenseRuleCounts:
    """Expected uses of S → A and of A → B C; the shapes of the rules."""

    root: Tensor  # [N] or [B, N]
    rules: Tensor  # [N, S, S] or [B, N, S, S]

    @property
    def parents(self) -> Tensor:
        """Expected uses of each nonterminal, [N] (or [B, N])."""
        return self.rules.sum((-1, -2))

    @property
    def preterminals(self) -> Tensor:
        """Expected uses of each preterminal, [P] (or [B, P])."""
        both = self.rules.sum((-3, -1)) + self.rules.sum((-3, -2))
        return both[..., self.rules.shape[-3] :]


def dense_tag_marginals(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``(log Z [B], marginals [B, n, P])``: the probability that preterminal T stands over word i."""
    arguments = check_dense_arguments(log_emissions, root, rules, lengths, span_bonus)
    log_z, words, _, _ = _expected(arguments, Wanted(words=True))
    return log_z, torch.zeros_like(arguments.log_emissions) if words is None else words


def dense_rule_counts(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> tuple[Tensor, DenseRuleCounts]:
    """``(log Z [B], counts)``: how often each rule is expected in the derivations of the batch.

    Summed over the batch where it shares its rules. A sentence of n words adds 1 to the root's counts and n − 1 to the
    rules'.
    """
    arguments = check_dense_arguments(log_emissions, root, rules, lengths, span_bonus)
    log_z, _, by_root, by_rules = _expected(arguments, Wanted(root=True, rules=True))
    if by_root is None or by_rules is None:  # one word has no tree, and uses no rule
        return log_z, DenseRuleCounts(torch.zeros_like(root), torch.zeros_like(rules))
    return log_z, DenseRuleCounts(by_root.mul_(arguments.root.detach()), by_rules.mul_(arguments.rules.detach()))


def _expected(arguments: DenseArguments, wanted: Wanted) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """log Z and its derivatives, without a graph; None for a batch of single words."""
    with torch.no_grad():
        if arguments.sizes[1] == 1:
            return arguments.log_emissions.new_full((arguments.sizes[0],), -math.inf), None, None, None
        chart = FilledChart(arguments)
        return chart.log_z, *chart.backward(torch.ones_like(chart.log_z), wanted)
