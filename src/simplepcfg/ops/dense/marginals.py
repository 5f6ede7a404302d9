"""Marginals of spans, symbols and preterminals, and expected rule counts, of an ordinary PCFG.

All are gradients of log Z, which the backward pass of the scaled chart computes without autograd.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.autograd_context import leaf, recordable, recording
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.backward import Wanted
from simplepcfg.ops.dense.scaled import FilledChart, Gradients, scaled_dense_inside
from simplepcfg.ops.tensor_fields import with_tensors


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
def dense_span_marginals(arguments: DenseArguments, *, create_graph: bool = False) -> tuple[Tensor, Tensor]:
    """Compute the log partition function [B] and the marginal probability of each span, given the sentence.

    The marginals are ``[B, n + 1, n + 1]``, as those of ``span_marginals``; ``create_graph`` says whether they can be
    differentiated.
    """
    batch, n, _, _ = arguments.sizes
    marginals = arguments.log_emissions.new_zeros(batch, n + 1, n + 1)
    if not create_graph:
        return _log_z_and_gradients(arguments, Wanted(marginals=marginals))[0], marginals
    with recording():
        given = with_tensors(arguments, recordable)
        # The marginals are the gradient with respect to the bonus; one that is part of the caller's graph stays in it.
        bonus = leaf(marginals.clone() if given.span_bonus is None else given.span_bonus, True)
        log_z = scaled_dense_inside(replace(given, span_bonus=bonus))
        if n > 1:  # a sentence of one word has no span that counts
            (marginals,) = torch.autograd.grad(log_z.sum(), bonus, create_graph=True, materialize_grads=True)
    return log_z, marginals


@without_autocast
def dense_symbol_marginals(arguments: DenseArguments) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each nonterminal over each span, given the sentence; not differentiable.

    Returns ``(log_z, marginals)``: ``[B]`` and ``[B, n + 1, n + 1, N]``. Summed over nonterminals this is
    ``dense_span_marginals``.
    """
    batch, n, nonterminals, _ = arguments.sizes
    marginals = arguments.log_emissions.new_zeros(batch, n + 1, n + 1, nonterminals)
    return _log_z_and_gradients(arguments, Wanted(symbols=marginals))[0], marginals


@without_autocast
def dense_tag_marginals(arguments: DenseArguments) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each preterminal over each word, given the sentence; not differentiable.

    Returns ``(log_z, marginals)``: ``[B]`` and ``[B, n, P]``.
    """
    log_z, (words, _, _) = _log_z_and_gradients(arguments, Wanted(words=True))
    return log_z, torch.zeros_like(arguments.log_emissions) if words is None else words


@without_autocast
def dense_rule_counts(arguments: DenseArguments) -> tuple[Tensor, DenseRuleCounts]:
    """Compute the expected number of uses of each rule in the derivations of the sentences; not differentiable.

    Returns ``(log_z, counts)``: ``[B]``, and counts in the shapes of the rules, summed over the sentences if the rules
    have no batch dimension. A sentence of n words adds 1 to the counts of the root and n − 1 to those of the rules.
    """
    log_z, (_, by_root, by_rules) = _log_z_and_gradients(arguments, Wanted(root=True, rules=True))
    root, rules = arguments.root.detach(), arguments.rules.detach()
    if by_root is None or by_rules is None:  # a sentence of one word has no tree
        return log_z, DenseRuleCounts(torch.zeros_like(root), torch.zeros_like(rules))
    return log_z, DenseRuleCounts(by_root.mul_(root), by_rules.mul_(rules))


def _log_z_and_gradients(arguments: DenseArguments, wanted: Wanted) -> tuple[Tensor, Gradients]:
    """Compute log Z and what is wanted, also in ``torch.inference_mode``; sentences of one word have no gradients."""
    with torch.no_grad():
        if arguments.sizes[1] == 1:
            return arguments.log_emissions.new_full((arguments.sizes[0],), -math.inf), (None, None, None)
        chart = FilledChart(arguments)
        return chart.log_z, chart.backward(torch.ones_like(chart.log_z), wanted)
