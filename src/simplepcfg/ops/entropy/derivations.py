"""Entropy and KL divergence of labelled derivations, from log Z and expected log-probabilities of rules."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import InsideArguments, Sentences, SimpleRules, check_arguments, needs_gradient
from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.entropy.differentiable import expected_scores_in_graph
from simplepcfg.ops.inside import inside_of
from simplepcfg.ops.logs import safe_log
from simplepcfg.ops.marginals.counts import Scores, expected_scores, expected_scores_of_batched_rules


@without_autocast
def derivation_entropy(rules: SimpleRules, sentences: Sentences, *, backend: str = "auto") -> Tensor:
    """Compute the entropy of the labelled derivations of each sentence, log Z − E[log weight].

    A span bonus is part of the weight of a derivation.

    Returns:
        ``[B]`` in float64, in nats; −inf for a sentence without a derivation. If a rule requires gradients, the result
        is differentiable, and computed in log space, which needs more memory.
    """
    given = _centred(check_arguments(rules, sentences))
    scores = Scores(
        given.log_emissions,
        safe_log(given.root),
        lambda parents, children: _times_log(given.left[..., parents, children]),
        lambda parents, children: _times_log(given.right[..., parents, children]),
        given.span_bonus,
    )
    log_z, expected = _expectation(given, scores, backend)
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
    scores = Scores(
        log_ratio(first.log_emissions, second.log_emissions),
        log_ratio(safe_log(first.root), safe_log(second.root)),
        lambda parents, children: _times_log_ratio(*(side.left[..., parents, children] for side in (first, second))),
        lambda parents, children: _times_log_ratio(*(side.right[..., parents, children] for side in (first, second))),
        None,  # the bonus is the same on both sides
    )
    log_p, expected = _expectation(first, scores, backend, second)
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
    given: InsideArguments, scores: Scores, backend: str, other: InsideArguments | None = None
) -> tuple[Tensor, Tensor]:
    """Compute log Z and the expected score of the derivations of each sentence; ``other`` may require gradients too."""
    if needs_gradient(given) or (other is not None and needs_gradient(other)):
        return expected_scores_in_graph(given, scores)
    if given.batched_rules:
        return expected_scores_of_batched_rules(given, scores, backend)
    return expected_scores(given, scores, backend)


def _centred(arguments: InsideArguments) -> InsideArguments:
    """Divide the emissions of each word by the largest, which cancels in all results, so that log Z loses no digits."""
    best = arguments.log_emissions.detach().amax(-1, keepdim=True)
    best = best.masked_fill(~best.isfinite(), 0.0)
    return replace(arguments, log_emissions=arguments.log_emissions - best)


def _times_log(rule: Tensor) -> Tensor:
    """Compute rule · log rule with 0 · log 0 = 0."""
    rule = rule.to(torch.promote_types(rule.dtype, torch.float32))
    if not rule.requires_grad:
        return torch.special.xlogy(rule, rule)
    return rule * safe_log(rule).masked_fill(rule == 0, 0.0)


def _times_log_ratio(p: Tensor, q: Tensor) -> Tensor:
    """Compute p · (log p − log q) in float64, because the logs may nearly cancel; +inf where only q is 0."""
    p, q = p.double(), q.double()
    if not (p.requires_grad or q.requires_grad):
        return torch.special.xlogy(p, p).sub_(torch.special.xlogy(p, q))
    weighted = p * (safe_log(p) - safe_log(q)).masked_fill((p == 0) | (q == 0), 0.0)
    return weighted.masked_fill((q == 0) & (p > 0), math.inf)


def log_ratio(one: Tensor, other: Tensor) -> Tensor:
    """Compute log p − log q, or 0 where p is 0, because such rules are never used."""
    return (one - other).masked_fill(one == -math.inf, 0.0)
