"""Entropy of the labelled derivations of a sentence, log Z − E[log weight], under a simple PCFG."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from simplepcfg.ops.arguments import (
    InsideArguments,
    Sentences,
    SimpleRules,
    check_arguments,
    needs_gradient,
    some_sentences,
)
from simplepcfg.ops.autograd_context import leaf, recordable, recording
from simplepcfg.ops.inside import inside_of
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.tensor_fields import with_tensors


@without_modes
def derivation_entropy(rules: SimpleRules, sentences: Sentences, *, backend: str = "auto") -> Tensor:
    """Compute the entropy of the labelled derivations of each sentence; a span bonus is part of their weight.

    Returns:
        ``[B]`` in float64, in nats; −inf for a sentence without a derivation. If a rule requires gradients, the result
        is differentiable, and computed in log space, which needs more memory.
    """
    given = _centred(check_arguments(rules, sentences))
    in_graph, batch = needs_gradient(given), given.sizes[0]
    with recording():
        given = with_tensors(given, recordable)
        left, right = (leaf(side.to(given.log_emissions.dtype), in_graph) for side in (given.left, given.right))
        given = replace(given, left=left, right=right)
        # Every sentence has counts of its own, so that those which share rules are taken one by one.
        some = torch.arange(batch).split(batch if given.batched_rules else 1)
        entropies = torch.cat([_entropies(some_sentences(given, indices), backend, in_graph) for indices in some])
    return entropies if in_graph else entropies.detach()


def _entropies(given: InsideArguments, backend: str, in_graph: bool) -> Tensor:
    batch, n, states, _ = given.sizes
    if n == 1:
        return inside_of(given, backend).double()
    emissions, root = leaf(given.log_emissions, in_graph), leaf(given.root.expand(batch, states), in_graph)
    bonus = None if given.span_bonus is None else leaf(given.span_bonus, in_graph)
    log_z = inside_of(replace(given, log_emissions=emissions, root=root, span_bonus=bonus), backend)
    log_weights = [emissions] if bonus is None else [emissions, bonus]
    return entropies_of(log_z, (root, given.left, given.right), log_weights, in_graph)


def _centred(arguments: InsideArguments) -> InsideArguments:
    """Divide the emissions of each word by the largest, which cancels in the result, so that log Z loses no digits."""
    best = arguments.log_emissions.detach().amax(-1, keepdim=True)
    best = best.masked_fill(~best.isfinite(), 0.0)
    return replace(arguments, log_emissions=arguments.log_emissions - best)


def entropies_of(log_z: Tensor, rules: Sequence[Tensor], log_weights: Sequence[Tensor], in_graph: bool) -> Tensor:
    """Compute log Z − E[log weight of a derivation], [B] in float64, from the gradients of log Z.

    The expected count of a rule is rule · d log Z / d rule, and that of an emission or a span d log Z / d its
    log-weight. Every sentence has values of its own, [B, …], from which ``log_z`` [B] was computed under autograd;
    those of a single sentence may lack the first dimension. With ``in_graph`` the result can be differentiated.
    """
    values = [*rules, *log_weights]
    slopes = torch.autograd.grad(log_z.sum(), values, create_graph=in_graph, materialize_grads=True)
    total = log_z.double()
    for place, (slope, value) in enumerate(zip(slopes, values, strict=True)):
        if place < len(rules):
            counts, logs = slope * value, torch.where(value > 0, value, 1.0).log()
        else:
            counts, logs = slope, value.masked_fill(value == -math.inf, 0.0)
        total = total - (counts * logs).reshape(len(total), -1).sum(1, dtype=torch.float64)
    return total.masked_fill(log_z == -math.inf, -math.inf)
