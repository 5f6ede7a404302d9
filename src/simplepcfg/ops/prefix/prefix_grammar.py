"""Prefix probabilities as inside probabilities of a larger grammar, which makes them differentiable."""

import math

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, Sentences, SimpleRules
from simplepcfg.ops.inside import log_partition
from simplepcfg.ops.prefix.closure import Closure, left_corner_closure


def prefix_rules(rules: SimpleRules, closure: Closure | None = None) -> SimpleRules:
    """Build rules with 2N nonterminals for which ``inside`` computes prefix probabilities of two or more words.

    Args:
        closure: the result of ``left_corner_closure``, if it has been computed before.

    Returns:
        Rules with 2N nonterminals: A, and A' for "a derivation of A begins with these words". The rows of A' do not sum
        to 1.

    >>> sides = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    >>> longer = prefix_rules(SimpleRules(torch.ones(1, dtype=torch.float64), sides, sides))
    >>> words = torch.zeros(1, 2, 1, dtype=torch.float64)  # every sentence begins with these two
    >>> log_partition(longer, Sentences(words)).exp().round(decimals=9)
    tensor([1.], dtype=torch.float64)
    """
    closure = left_corner_closure(rules) if closure is None else closure
    root, left, right = rules.tensors
    nonterminals = root.shape[-1]
    start, carry = closure.start.to(root.dtype), closure.carry.to(left.dtype)
    none = torch.zeros_like(carry)
    left_n, left_p = left[..., :nonterminals], left[..., nonterminals:]
    right_n, right_p = right[..., :nonterminals], right[..., nonterminals:]
    left_rows = torch.cat([left_n, none, left_p], -1)
    begun = torch.cat([none, carry, right_p + carry @ left_p], -1)
    return SimpleRules(
        torch.cat([torch.zeros_like(start), start], -1),
        torch.cat([left_rows, left_rows], -2),
        torch.cat([torch.cat([right_n, none, right_p], -1), begun], -2),
        rules.precision,
    )


def differentiable_prefix(arguments: InsideArguments, closure: Closure, backend: str) -> Tensor:
    """Compute prefix log-probabilities by one inside pass for each m: [B, n + 1] float64, differentiable."""
    batch, n, nonterminals, _ = arguments.sizes
    emissions = arguments.log_emissions
    rules = prefix_rules(arguments.rules, closure)
    lengths = torch.full((batch,), n) if arguments.lengths is None else arguments.lengths
    first_tags = (closure.start.unsqueeze(-2) @ arguments.left[..., nonterminals:].double()).squeeze(-2)  # [(B,) P]
    columns = [torch.zeros(batch, dtype=torch.float64, device=emissions.device), _first(emissions[:, 0], first_tags)]
    for m in range(2, n + 1):
        within = lengths.clamp(max=m)
        log_z = log_partition(rules, Sentences(emissions[:, :m], within), backend=backend).double()
        exists = (lengths >= m).to(emissions.device)
        columns.append(torch.where(exists, log_z, torch.full_like(log_z, -math.inf)))
    return torch.stack(columns, 1)


def _first(log_emissions: Tensor, tags: Tensor) -> Tensor:
    """Compute log Σ_T tags[T] emit[T, w_0], with a gradient of 0 where the sum is 0."""
    impossible = (tags == 0) | (log_emissions == -math.inf)
    logs = torch.where(impossible, 0.0, log_emissions.double()) + torch.where(impossible, 1.0, tags).log()
    logs = logs.masked_fill(impossible, -math.inf)
    never = impossible.all(-1)
    return torch.logsumexp(logs.masked_fill(never[:, None], 0.0), -1).masked_fill(never, -math.inf)
