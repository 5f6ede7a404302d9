"""Marginals of spans, symbols and preterminals, expected rule counts, and entropy, of an ordinary PCFG.

All are gradients of log Z: with respect to log-emissions, rules, or the log-weights of spans.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from simplepcfg.ops.autograd_context import leaf, recordable, recording, requires_graph, value_and_gradients
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.recursion import dense_log_partition
from simplepcfg.ops.entropy import entropies_of
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.tensor_fields import in_float64, with_tensors

# Every sentence has counts of its own; those of so many rules are held at a time.
COUNTS_AT_ONCE = 1 << 22


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


@without_modes
def dense_span_marginals(arguments: DenseArguments, *, create_graph: bool = False) -> tuple[Tensor, Tensor]:
    """Compute the log partition function [B] and the marginal probability of each span, given the sentence.

    The marginals are ``[B, n + 1, n + 1]``, as those of ``span_marginals``; ``create_graph`` says whether they can be
    differentiated.
    """
    batch, n, _, _ = arguments.sizes
    bonus = arguments.span_bonus
    bonus = arguments.log_emissions.new_zeros(batch, n + 1, n + 1) if bonus is None else bonus
    given = replace(arguments, span_bonus=bonus)
    log_z, (marginals,) = value_and_gradients(dense_log_partition, given, ["span_bonus"], create_graph=create_graph)
    return log_z, marginals


@without_modes
def dense_symbol_marginals(arguments: DenseArguments) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each nonterminal over each span, given the sentence; not differentiable.

    Returns ``(log_z, marginals)``: ``[B]`` and ``[B, n + 1, n + 1, N]``. Summed over nonterminals this is
    ``dense_span_marginals``.
    """
    batch, n, nonterminals, _ = arguments.sizes
    bonus = arguments.log_emissions.new_zeros(batch, n + 1, n + 1, nonterminals)
    bonus = bonus if arguments.span_bonus is None else bonus + arguments.span_bonus[..., None]
    given = replace(arguments, span_bonus=bonus)
    log_z, (marginals,) = value_and_gradients(dense_log_partition, given, ["span_bonus"], create_graph=False)
    return log_z, marginals


@without_modes
def dense_tag_marginals(arguments: DenseArguments) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each preterminal over each word, given the sentence; not differentiable.

    Returns ``(log_z, marginals)``: ``[B]`` and ``[B, n, P]``.
    """
    log_z, (marginals,) = value_and_gradients(dense_log_partition, arguments, ["log_emissions"], create_graph=False)
    return log_z, marginals


@without_modes
def dense_rule_counts(arguments: DenseArguments) -> tuple[Tensor, DenseRuleCounts]:
    """Compute the expected number of uses of each rule in the derivations of the sentences; not differentiable.

    Returns ``(log_z, counts)``: ``[B]``, and counts in the shapes of the rules, summed over the sentences if the rules
    have no batch dimension. A sentence of n words adds 1 to the counts of the root and n − 1 to those of the rules.
    """
    slopes = value_and_gradients(dense_log_partition, arguments, ["root", "rules"], create_graph=False)
    log_z, (by_root, by_rules) = slopes
    return log_z, DenseRuleCounts(by_root * arguments.root.detach(), by_rules * arguments.rules.detach())


@without_modes
def dense_entropy(arguments: DenseArguments) -> Tensor:
    """Compute the entropy of the labelled derivations of each sentence: [B] float64, in nats.

    A span bonus is part of the weight of a derivation. A sentence without a derivation has -inf. The result is
    differentiable if a rule requires gradients.
    """
    given = in_float64(arguments)  # differences of log-probabilities lose digits
    in_graph = requires_graph(given.log_emissions, given.root, given.rules, given.span_bonus)
    sentences = torch.arange(given.sizes[0], device=given.log_emissions.device)
    with recording():
        given = with_tensors(given, recordable)
        parts = sentences.split(max(1, COUNTS_AT_ONCE // given.rules.shape[-3:].numel()))
        entropies = torch.cat([_entropies(given.of_sentences(some), in_graph) for some in parts])
    return entropies if in_graph else entropies.detach()


def _entropies(given: DenseArguments, in_graph: bool) -> Tensor:
    """Compute the entropies from the gradients of log Z, for which every sentence gets rules of its own."""
    batch, n, _, _ = given.sizes
    if n == 1:
        return dense_log_partition(given)
    root, rules = given.root.expand(batch, -1), given.rules.expand(batch, -1, -1, -1)
    emissions, root, rules = (leaf(each, in_graph) for each in (given.log_emissions, root, rules))
    bonus = None if given.span_bonus is None else leaf(given.span_bonus, in_graph)
    log_z = dense_log_partition(DenseArguments(emissions, root, rules, given.lengths, bonus))
    return entropies_of(log_z, (root, rules), [emissions] if bonus is None else [emissions, bonus], in_graph)
