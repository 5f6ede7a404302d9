"""Entropy and KL divergence of the labelled derivations of ordinary PCFGs.

Both follow from log Z and the expected score of a derivation, which is the sum of the scores of its rules. Without
gradients the expectation is computed from expected counts, one sentence at a time, because counts of shared rules are
sums over the batch. With gradients it is the derivative of log Z when every rule is multiplied by exp(ε · score), with
an ε for each sentence.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.dense import dense_inside
from simplepcfg.ops.dense.arguments import DenseArguments, check_dense_arguments
from simplepcfg.ops.dense.backward import Wanted
from simplepcfg.ops.dense.log_space import inside_by, scaled_pairs
from simplepcfg.ops.dense.scaled import FilledChart
from simplepcfg.ops.entropy.derivations import log_ratio
from simplepcfg.ops.entropy.differentiable import usable_scores
from simplepcfg.ops.logs import safe_log

# The first three arguments of `dense_inside`: log-emissions, root and rules.
DenseRules = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class _Scores:
    """A score for every emission, root rule, rule and span; finite or +inf where the probability is positive."""

    emissions: Tensor
    root: Tensor
    rules: Tensor
    spans: Tensor | None

    def of_sentence(self, row: Tensor, batched_root: bool, batched_rules: bool) -> "_Scores":
        """Return the scores of one sentence of the batch."""
        return _Scores(
            self.emissions[row],
            self.root[row] if batched_root else self.root,
            self.rules[row] if batched_rules else self.rules,
            None if self.spans is None else self.spans[row],
        )


def dense_entropy(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
) -> Tensor:
    """Compute the entropy of the labelled derivations of each sentence, log Z − E[log weight]: [B] float64, in nats.

    The arguments are those of ``dense_inside``; a span bonus is part of the weight. A sentence without a derivation has
    -inf. The result is differentiable if a rule requires gradients.
    """
    given = _exact((log_emissions, root, rules), lengths, span_bonus)
    scores = _Scores(given.log_emissions, safe_log(given.root), safe_log(given.rules), given.span_bonus)
    log_z, expected = _expectation(given, scores, given)
    return (log_z - expected).masked_fill(log_z == -math.inf, -math.inf)


def dense_kl(
    p: DenseRules, q: DenseRules, *, lengths: Tensor | None = None, span_bonus: Tensor | None = None
) -> Tensor:
    """Compute KL(p ‖ q) between the derivations of each sentence under two grammars with the same symbols.

    Returns ``[B]`` in float64, in nats: log Z_q − log Z_p + E_p[log p − log q]. +inf if q gives probability 0 to a rule
    that p uses in the sentence, −inf if the sentence has no derivation under p. Differentiable if a rule requires
    gradients. InputError if the shapes of p and q differ.
    """
    for name, one, other in zip(("log_emissions", "root", "rules"), p, q, strict=True):
        if one.shape != other.shape:
            raise InputError(
                f"{name} has shape {list(one.shape)} in p and {list(other.shape)} in q; derivations can be compared "
                "between grammars of the same symbols only"
            )
    first, second = _exact(p, lengths, span_bonus), _exact(q, lengths, span_bonus)
    scores = _Scores(
        log_ratio(first.log_emissions, second.log_emissions),
        log_ratio(safe_log(first.root), safe_log(second.root)),
        log_ratio(safe_log(first.rules), safe_log(second.rules)),
        None,  # the bonus is the same on both sides
    )
    log_p, expected = _expectation(first, scores, second)
    log_q = dense_inside(second.log_emissions, second.root, second.rules, lengths=lengths, span_bonus=span_bonus)
    endless = (log_q == -math.inf) | (expected == math.inf)
    gap = log_q.masked_fill(endless, 0.0) - log_p.masked_fill(endless, 0.0)
    found = (gap + expected.masked_fill(endless, 0.0)).masked_fill(endless, math.inf)
    return found.masked_fill(log_p == -math.inf, -math.inf)


def _exact(inputs: DenseRules, lengths: Tensor | None, span_bonus: Tensor | None) -> DenseArguments:
    """Check the arguments and convert them to float64, because differences of log-probabilities lose digits."""
    log_emissions, root, rules = inputs
    return check_dense_arguments(log_emissions.double(), root.double(), rules.double(), lengths, span_bonus)


def _expectation(given: DenseArguments, scores: _Scores, other: DenseArguments) -> tuple[Tensor, Tensor]:
    """Compute log Z and the expected score of a derivation: [B] each."""
    inputs = [t for side in (given, other) for t in (side.log_emissions, side.root, side.rules, side.span_bonus)]
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs):
        return _expectation_in_graph(given, scores)
    rows = torch.arange(given.sizes[0], device=given.log_emissions.device)
    batched = (given.root.dim() == 2, given.batched_rules)
    with torch.no_grad():
        found = [
            _expectation_of_one(given.of_sentences(row, torch.float64), scores.of_sentence(row, *batched))
            for row in rows.split(1)
        ]
    log_z, expected = (torch.cat(part) for part in zip(*found, strict=True))
    return log_z, expected


def _expectation_of_one(arguments: DenseArguments, scores: _Scores) -> tuple[Tensor, Tensor]:
    if arguments.sizes[1] == 1:
        return torch.full_like(scores.emissions[:, 0, 0], -math.inf), torch.zeros_like(scores.emissions[:, 0, 0])
    marginals = None if scores.spans is None else torch.zeros_like(scores.spans)
    chart = FilledChart(arguments)
    wanted = Wanted(words=True, root=True, rules=True, marginals=marginals)
    words, by_root, by_rules = chart.backward(torch.ones_like(chart.log_z), wanted)
    assert words is not None
    assert by_root is not None
    assert by_rules is not None
    total = _weigh(words, scores.emissions) + _weigh(by_root * arguments.root, scores.root)
    total = total + _weigh(by_rules.mul_(arguments.rules), scores.rules)
    if marginals is not None and scores.spans is not None:
        total = total + _weigh(marginals, scores.spans)
    return chart.log_z, total[None]


def _expectation_in_graph(arguments: DenseArguments, scores: _Scores) -> tuple[Tensor, Tensor]:
    """Compute the expectation in log space; to first order rules · exp(ε score) = rules + ε · rules · score."""
    emissions, root, rules, bonus = arguments.log_emissions, arguments.root, arguments.rules, arguments.span_bonus
    tilt = torch.zeros(arguments.sizes[0], dtype=emissions.dtype, device=emissions.device, requires_grad=True)
    slopes = rules * usable_scores(scores.rules, rules > 0)
    emissions = emissions + tilt[:, None, None] * usable_scores(scores.emissions, emissions > -math.inf)
    root = root * (1 + tilt[:, None] * usable_scores(scores.root, root > 0))
    if bonus is not None and scores.spans is not None:
        bonus = bonus + tilt[:, None, None] * usable_scores(scores.spans, bonus > -math.inf)

    def combine(left: Tensor, right: Tensor, block: tuple[slice, slice]) -> Tensor:
        pairs, scale = scaled_pairs(left, right)
        plain, slope = (
            torch.matmul(pairs, tensor[..., *block].flatten(-2).transpose(-1, -2)) for tensor in (rules, slopes)
        )
        return safe_log(plain + tilt[:, None, None] * slope) + scale

    log_z = inside_by(DenseArguments(emissions, root, rules, arguments.lengths, bonus), combine)
    (expected,) = torch.autograd.grad(log_z.sum(), tilt, create_graph=True)
    return log_z, expected


def _weigh(count: Tensor, score: Tensor) -> Tensor:
    """Compute Σ count · score with 0 · ∞ = 0."""
    return torch.where(count > 0, count * score, 0.0).sum()
