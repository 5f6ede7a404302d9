"""The expected score of a derivation, the sum of the scores of its rules, from gradients of log Z.

The expected count of a rule is rule · d log Z / d rule, and that of an emission or a span d log Z / d its log-weight.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from simplepcfg.errors import InputError

# A value, the score of each of its entries, and whether the value is a log-weight.
Term = tuple[Tensor, Tensor, bool]


def expected_scores(log_z: Tensor, terms: Sequence[Term], in_graph: bool) -> Tensor:
    """Compute the expected score of the derivation of each sentence, [B] in float64.

    Every sentence has values of its own, [B, …], from which ``log_z`` [B] was computed under autograd; those of a
    single sentence may lack the first dimension. A rule that no derivation of the sentence uses adds nothing, even if
    its score is infinite. With ``in_graph`` the result can be differentiated; InputError if a score is infinite then.
    """
    values = [value for value, _, _ in terms]
    slopes = torch.autograd.grad(log_z.sum(), values, create_graph=in_graph, materialize_grads=True)
    total = torch.zeros_like(log_z, dtype=torch.float64)
    for slope, (value, score, is_log) in zip(slopes, terms, strict=True):
        if in_graph:
            score = _usable_scores(score, value > (-math.inf if is_log else 0.0))
        count = slope if is_log else slope * value
        weighted = count * score
        if bool(score.isinf().any()):
            weighted = torch.where(count > 0, weighted, 0.0)
        total = total + weighted.reshape(len(total), -1).sum(1, dtype=torch.float64)
    return total


def _usable_scores(score: Tensor, counts: Tensor) -> Tensor:
    """Return the scores of rules that can be used, 0 for others; raise InputError if one of them is infinite."""
    if bool(((score == math.inf) & counts).any()):
        raise InputError("q gives probability 0 to a rule that p has: KL has no gradient there; use torch.no_grad()")
    return torch.where(counts, score.masked_fill(~score.isfinite(), 0.0), 0.0)
