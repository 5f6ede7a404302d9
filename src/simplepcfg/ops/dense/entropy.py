"""Entropy and KL divergence of the derivations of ordinary PCFGs."""

import math

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.autograd_context import leaf, recordable, recording, requires_graph
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.recursion import dense_log_partition
from simplepcfg.ops.entropy.derivations import check_same_shapes, divergence, log_ratio
from simplepcfg.ops.entropy.expected_scores import Term, expected_scores
from simplepcfg.ops.logs import safe_log
from simplepcfg.ops.tensor_fields import in_float64

# Every sentence has counts of its own; those of so many rules are held at a time.
COUNTS_AT_ONCE = 1 << 22


@without_autocast
def dense_entropy(arguments: DenseArguments) -> Tensor:
    """Compute the entropy of the labelled derivations of each sentence, log Z − E[log weight]: [B] float64, in nats.

    A span bonus is part of the weight. A sentence without a derivation has -inf. The result is differentiable if a rule
    requires gradients.
    """
    given = in_float64(arguments)  # differences of log-probabilities lose digits
    scores = DenseArguments(given.log_emissions, safe_log(given.root), safe_log(given.rules), None, given.span_bonus)
    log_z, expected = _expected_scores(given, scores)
    return (log_z - expected).masked_fill(log_z == -math.inf, -math.inf)


@without_autocast
def dense_kl(p: DenseArguments, q: DenseArguments) -> Tensor:
    """Compute KL(p ‖ q) between the derivations of the same sentences under two grammars with the same symbols.

    Returns ``[B]`` in float64, in nats: log Z_q − log Z_p + E_p[log p − log q]. +inf if q gives probability 0 to a rule
    that p uses in the sentence, −inf if the sentence has no derivation under p. Differentiable if a rule requires
    gradients. InputError if the shapes of p and q differ.
    """
    ours, theirs = (p.log_emissions, p.root, p.rules), (q.log_emissions, q.root, q.rules)
    check_same_shapes(("log_emissions", "root", "rules"), ours, theirs)
    p, q = in_float64(p), in_float64(q)
    scores = DenseArguments(
        log_ratio(p.log_emissions, q.log_emissions),
        log_ratio(safe_log(p.root), safe_log(q.root)),
        log_ratio(safe_log(p.rules), safe_log(q.rules)),
        None,
        None,  # the bonus is the same on both sides
    )
    log_p, expected = _expected_scores(p, scores)
    return divergence(log_p, dense_log_partition(q), expected)


def _expected_scores(given: DenseArguments, scores: DenseArguments) -> tuple[Tensor, Tensor]:
    """Compute log Z and the expected score of a derivation, [B] each; ``scores`` has a score in place of each value."""
    tensors = [t for side in (given, scores) for t in (side.log_emissions, side.root, side.rules, side.span_bonus)]
    in_graph = requires_graph(*tensors)
    sentences = torch.arange(given.sizes[0], device=given.log_emissions.device)
    parts = [
        _expected_scores_of_some(given.of_sentences(some), scores.of_sentences(some), in_graph)
        for some in sentences.split(max(1, COUNTS_AT_ONCE // given.rules.shape[-3:].numel()))
    ]
    log_z, expected = (torch.cat(part) for part in zip(*parts, strict=True))
    return log_z, expected


def _expected_scores_of_some(given: DenseArguments, scores: DenseArguments, in_graph: bool) -> tuple[Tensor, Tensor]:
    """Compute the expectation from the gradients of log Z, for which every sentence gets rules of its own."""
    batch, n, _, _ = given.sizes
    if n == 1:
        return dense_log_partition(given), given.log_emissions.new_zeros(batch)

    root, rules, bonus = given.root.expand(batch, -1), given.rules.expand(batch, -1, -1, -1), given.span_bonus
    with recording():
        emissions, root, rules = (leaf(recordable(each), in_graph) for each in (given.log_emissions, root, rules))
        terms: list[Term] = [(emissions, scores.log_emissions, True)]
        terms += [(root, scores.root, False), (rules, scores.rules, False)]
        if bonus is not None and scores.span_bonus is not None:
            bonus = leaf(recordable(bonus), in_graph)
            terms.append((bonus, scores.span_bonus, True))
        own = DenseArguments(emissions, root, rules, given.lengths, bonus)
        log_z = dense_log_partition(own)
        expected = expected_scores(log_z, terms, in_graph)
    return (log_z, expected) if in_graph else (log_z.detach(), expected.detach())
