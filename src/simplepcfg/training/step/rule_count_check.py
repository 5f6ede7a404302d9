"""A check of the inside algorithm at run time: expected rule counts of a sentence of n words sum to 3n − 1.

A derivation has one root rule, n emissions, and n − 1 binary rules, each of which a simple grammar counts as a left
and a right half. A dense grammar counts a binary rule once, so its counts sum to 2n.
"""

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseGrammar
from simplepcfg.models import Model, ModelConfig
from simplepcfg.ops.dense import dense_inside
from simplepcfg.ops.inside import inside
from simplepcfg.runs.config.schema import TrainingConfig

CHUNK_NUMBERS = 2**24  # elements converted at a time, so that no float32 copy of a large rule matrix is made


def require_rules(model: ModelConfig, settings: TrainingConfig) -> None:
    """Raise InputError if `training.check_identity` is set for a model without rules."""
    if settings.check_identity and getattr(model, "states", None):
        raise InputError(
            f"training.check_identity: a model of kind {model.kind} has no rules to count; set it to false"
        )


def rule_count_ratio(model: Model, words: Tensor, lengths: Tensor) -> float | None:
    """Return Σ |rule · d log Z / d rule| over all rules and emissions, divided by Σ (3n − 1): 1 if it is exact.

    `words` is [B, n] on the model's device, `lengths` [B] on the CPU; the precision is that of training. If the ratio
    is 1 and the gradient of the weights is large nevertheless, the networks amplify it, not the inside algorithm.
    Returns None if every sentence has probability 0. Raises InputError if the grammar has no rules.
    """
    with torch.no_grad():
        grammar = model.grammar(words, lengths)
        grammar = grammar.to_simple() if hasattr(grammar, "to_simple") else grammar
        dense = isinstance(grammar, DenseGrammar)
        names = ("root", "rules") if dense else ("root", "left", "right")
        if not all(hasattr(grammar, name) for name in (*names, "emissions")):
            raise InputError("training.check_identity: this grammar has no left and right rules; set it to false")
        log_emissions = grammar.emissions.log_probabilities(words)
    rules = [getattr(grammar, name) for name in names]
    leaves = [tensor.detach().requires_grad_() for tensor in (log_emissions, *rules)]
    possible = lengths > 1
    if not possible.any():
        return None
    with torch.enable_grad():
        if dense:
            log_z = dense_inside(*leaves, lengths=lengths, backend=grammar.backend)
        else:
            log_z = inside(
                *leaves, lengths=lengths, precision=getattr(grammar, "precision", None), backend=grammar.backend
            )
        possible = torch.isfinite(log_z.detach())
        by_emission, *by_rule = torch.autograd.grad(torch.where(possible, log_z, 0.0).sum(), leaves)
    counts = by_emission.abs().sum(dtype=torch.float64)
    for rule, gradient in zip(leaves[1:], by_rule, strict=True):
        counts = counts + _expected_count(rule.detach(), gradient)
    expected = torch.where(possible.cpu(), 2 * lengths if dense else 3 * lengths - 1, 0).sum()
    return (counts / expected).item() if expected else None


def _expected_count(rule: Tensor, gradient: Tensor) -> Tensor:
    """Return Σ |rule · gradient|, computed some rows at a time in at least float32 and summed in float64."""
    rules, gradients = rule.reshape(-1, rule.shape[-1]), gradient.reshape(-1, rule.shape[-1])
    rows = max(1, CHUNK_NUMBERS // rules.shape[1])
    kind = torch.promote_types(rule.dtype, torch.float32)
    parts = zip(rules.split(rows), gradients.split(rows), strict=True)
    return torch.stack([(a.to(kind) * b.to(kind)).abs().sum(dtype=torch.float64) for a, b in parts]).sum()
