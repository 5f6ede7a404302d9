"""Entropy of the derivations of ordinary PCFGs."""

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.autograd_context import leaf, recordable, recording, requires_graph
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.recursion import dense_log_partition
from simplepcfg.ops.entropy import entropies_of
from simplepcfg.ops.tensor_fields import in_float64, with_tensors

# Every sentence has counts of its own; those of so many rules are held at a time.
COUNTS_AT_ONCE = 1 << 22


@without_autocast
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
