"""Expected scores that can be differentiated: the derivative of log Z when every rule is tilted by its score.

With rules r · exp(ε s), d log Z / dε at ε = 0 is the expected sum of s over a derivation. Each sentence has an ε of its
own, which gives an expectation for each sentence although they share the rules. To first order r · exp(ε s) = r + ε r
s, so that a product with the tilted rules is two products with fixed matrices.
"""

import math

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.inside.log_space import LogEinsumExp, log_space_inside
from simplepcfg.ops.logs import safe_log
from simplepcfg.ops.marginals.counts import Scores


def expected_scores_in_graph(arguments: InsideArguments, scores: Scores) -> tuple[Tensor, Tensor]:
    """Compute ``expected_scores`` such that both results can be differentiated.

    The computation is in log space under autograd. It stores every split, n³N / 6 numbers for each sentence, and the
    scores of all rules at once.
    """
    kind = arguments.log_emissions.dtype
    batch = arguments.sizes[0]
    tilt = torch.zeros(batch, dtype=kind, device=arguments.log_emissions.device, requires_grad=True)
    left, right = arguments.left.to(kind), arguments.right.to(kind)
    every = slice(None)
    slopes = [
        usable_scores(weights(every, every), rule > 0).to(kind)
        for rule, weights in ((left, scores.left), (right, scores.right))
    ]
    emissions = arguments.log_emissions
    emissions = emissions + tilt[:, None, None] * usable_scores(scores.emissions, emissions > -math.inf)
    root = arguments.root * (1 + tilt[:, None] * usable_scores(scores.root, arguments.root > 0))
    bonus = arguments.span_bonus
    if bonus is not None and scores.spans is not None:
        bonus = bonus + tilt[:, None, None] * scores.spans.masked_fill(scores.spans == -math.inf, 0.0)
    tilted = InsideArguments(emissions, root, left, right, arguments.lengths, bonus, None)
    log_z = log_space_inside(tilted, _TiltedProducts(tilted, tilt, slopes))
    (expected,) = torch.autograd.grad(log_z.sum(), tilt, create_graph=True)
    return log_z, expected.double()


class _TiltedProducts(LogEinsumExp):
    """Map log β to log [η | ζ] with the rules r + ε · slopes."""

    def __init__(self, arguments: InsideArguments, tilt: Tensor, slopes: list[Tensor]) -> None:
        super().__init__(arguments)
        nonterminals = arguments.root.shape[-1]
        both = torch.cat(slopes, dim=-2).transpose(-1, -2)  # [(B,) N + P, 2N]
        self.tilt = tilt[:, None, None]
        self.span_slopes, self.word_slopes = both[..., :nonterminals, :], both[..., nonterminals:, :]

    def words(self, log_emissions: Tensor) -> Tensor:
        return self._tilted(log_emissions, self.preterminals, self.word_slopes)

    def spans(self, beta: Tensor) -> Tensor:
        return self._tilted(beta, self.nonterminals, self.span_slopes)

    def _tilted(self, logs: Tensor, rules: Tensor, slopes: Tensor) -> Tensor:
        scale = logs.detach().amax(-1, keepdim=True)
        scale = scale.masked_fill(scale == -math.inf, 0.0)
        values = (logs - scale).exp()
        return safe_log(values @ rules + self.tilt * (values @ slopes)) + scale


def usable_scores(score: Tensor, counts: Tensor) -> Tensor:
    """Return the scores of rules that can be used, 0 for others; raise InputError if one of them is infinite."""
    if bool(((score == math.inf) & counts).any()):
        raise InputError("q gives probability 0 to a rule that p has: KL has no gradient there; use torch.no_grad()")
    return torch.where(counts, score.masked_fill(~score.isfinite(), 0.0), 0.0)
