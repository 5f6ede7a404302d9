"""Entropy and KL divergence of the labelled derivations of a simple PCFG, from log Z and expected scores of rules."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import (
    InsideArguments,
    Sentences,
    SimpleRules,
    check_arguments,
    needs_gradient,
    recordable_arguments,
    some_sentences,
)
from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.autograd_context import leaf, recording
from simplepcfg.ops.entropy.expected_scores import Term, expected_scores
from simplepcfg.ops.inside import inside_of
from simplepcfg.ops.logs import safe_log


@without_autocast
def derivation_entropy(rules: SimpleRules, sentences: Sentences, *, backend: str = "auto") -> Tensor:
    """Compute the entropy of the labelled derivations of each sentence, log Z − E[log weight].

    A span bonus is part of the weight of a derivation.

    Returns:
        ``[B]`` in float64, in nats; −inf for a sentence without a derivation. If a rule requires gradients, the result
        is differentiable, and computed in log space, which needs more memory.
    """
    given = _centred(check_arguments(rules, sentences))
    root, left, right = (safe_log(rule) for rule in given.rules.tensors)
    log_z, expected = _expectation(given, replace(given, root=root, left=left, right=right, lengths=None), backend)
    return (log_z.double() - expected).masked_fill(log_z == -math.inf, -math.inf)


@without_autocast
def derivation_kl(
    rules: SimpleRules,
    sentences: Sentences,
    other_rules: SimpleRules,
    other_sentences: Sentences,
    *,
    backend: str = "auto",
) -> Tensor:
    """Compute KL(p ‖ q) between the derivations of each sentence under two grammars with the same symbols.

    The other rules and sentences are those of q: the same sentences under its emissions, with the same span bonus.
    Returns ``[B]`` in float64, in nats: log Z_q − log Z_p + E_p[log p − log q]. +inf if q gives probability 0 to a rule
    that p uses in the sentence, −inf if the sentence has no derivation under p. Differentiable if a rule requires
    gradients. Raises InputError if the shapes of p and q differ.
    """
    ours, theirs = (sentences.log_emissions, *rules.tensors), (other_sentences.log_emissions, *other_rules.tensors)
    check_same_shapes(("log_emissions", "root", "left", "right"), ours, theirs)
    first = _centred(check_arguments(rules, sentences))
    second = _centred(check_arguments(other_rules, other_sentences))
    # In float64, because the logs may nearly cancel. The bonus is the same on both sides.
    logs = (
        safe_log(one.double()) for pair in zip(first.rules.tensors, second.rules.tensors, strict=True) for one in pair
    )
    root, left, right = (log_ratio(one, other) for one, other in zip(logs, logs, strict=True))
    emissions = log_ratio(first.log_emissions, second.log_emissions)
    scores = InsideArguments(emissions, root, left, right, None, None, None)
    log_p, expected = _expectation(first, scores, backend, needs_gradient(second))
    return divergence(log_p, inside_of(second, backend), expected)


def check_same_shapes(names: Sequence[str], p: Sequence[Tensor], q: Sequence[Tensor]) -> None:
    """Raise InputError unless the tensors of two grammars have the same shapes."""
    for name, one, other in zip(names, p, q, strict=True):
        if one.shape != other.shape:
            raise InputError(
                f"{name} has shape {list(one.shape)} in p and {list(other.shape)} in q; derivations can be compared "
                "between grammars of the same symbols only"
            )


def divergence(log_p: Tensor, log_q: Tensor, expected: Tensor) -> Tensor:
    """Compute log Z_q − log Z_p + E_p[log p − log q] in float64; ±inf as ``derivation_kl`` says."""
    endless = (log_q == -math.inf) | (expected == math.inf)
    gap = log_q.double().masked_fill(endless, 0.0) - log_p.double().masked_fill(endless, 0.0)
    finite = gap + expected.masked_fill(endless, 0.0)
    return finite.masked_fill(endless, math.inf).masked_fill(log_p == -math.inf, -math.inf)


def _expectation(
    given: InsideArguments, scores: InsideArguments, backend: str, in_graph: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute log Z and the expected score of a derivation, [B] each; ``scores`` has a score in place of each value.

    Every sentence has counts of its own, so that those which share rules are taken one by one.
    """
    in_graph, batch = in_graph or needs_gradient(given), given.sizes[0]
    with recording():
        given = recordable_arguments(given)
        left, right = (leaf(side.to(given.log_emissions.dtype), in_graph) for side in (given.left, given.right))
        given = replace(given, left=left, right=right)
        answers = [
            _expectation_of_some(some_sentences(given, some), some_sentences(scores, some), backend, in_graph)
            for some in torch.arange(batch).split(batch if given.batched_rules else 1)
        ]
        log_z, expected = (torch.cat(answer) for answer in zip(*answers, strict=True))
    return (log_z, expected) if in_graph else (log_z.detach(), expected.detach())


def _expectation_of_some(
    given: InsideArguments, scores: InsideArguments, backend: str, in_graph: bool
) -> tuple[Tensor, Tensor]:
    batch, n, states, _ = given.sizes
    if n == 1:
        return inside_of(given, backend), torch.zeros(batch, dtype=torch.float64, device=given.root.device)
    emissions, root = leaf(given.log_emissions, in_graph), leaf(given.root.expand(batch, states), in_graph)
    terms: list[Term] = [(emissions, scores.log_emissions, True), (root, scores.root, False)]
    terms += [(given.left, scores.left, False), (given.right, scores.right, False)]
    bonus = given.span_bonus
    if bonus is not None and scores.span_bonus is not None:
        bonus = leaf(bonus, in_graph)
        terms.append((bonus, scores.span_bonus, True))
    log_z = inside_of(replace(given, log_emissions=emissions, root=root, span_bonus=bonus), backend)
    return log_z, expected_scores(log_z, terms, in_graph)


def _centred(arguments: InsideArguments) -> InsideArguments:
    """Divide the emissions of each word by the largest, which cancels in all results, so that log Z loses no digits."""
    best = arguments.log_emissions.detach().amax(-1, keepdim=True)
    best = best.masked_fill(~best.isfinite(), 0.0)
    return replace(arguments, log_emissions=arguments.log_emissions - best)


def log_ratio(one: Tensor, other: Tensor) -> Tensor:
    """Compute log p − log q, or 0 where p is 0, because such rules are never used."""
    return (one - other).masked_fill(one == -math.inf, 0.0)
