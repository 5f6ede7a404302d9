"""A check of the inside algorithm at run time: expected rule counts of a sentence of n words sum to 3n − 1.

A derivation has one root rule, n emissions, and n − 1 binary rules, each of which a simple grammar counts as a left
and a right half. A dense grammar counts a binary rule once, so its counts sum to 2n.
"""

from dataclasses import fields

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseGrammar, RankGrammar, SimpleGrammar
from simplepcfg.models import Model


@torch.no_grad()
def rule_count_ratio(model: Model, words: Tensor, lengths: Tensor) -> float | None:
    """Return Σ |rule · d log Z / d rule| over all rules and emissions, divided by Σ (3n − 1): 1 if it is exact.

    `words` is [B, n] on the model's device, `lengths` [B] on the CPU; the precision is that of training. If the ratio
    is 1 and the gradient of the weights is large nevertheless, the networks amplify it, not the inside algorithm.
    Returns None if every sentence has probability 0. Raises InputError if the grammar has no rules.
    """
    if not bool((lengths > 1).any()):
        return None
    grammar = model.grammar(words, lengths)
    grammar = grammar.to_simple() if isinstance(grammar, RankGrammar) else grammar
    if not isinstance(grammar, SimpleGrammar | DenseGrammar):
        raise InputError("training.check_identity: this grammar has no rules to count; set it to false")
    given = grammar.log_emissions(words, lengths)
    rules = grammar.rule_counts(given, lengths)
    counts = [grammar.tag_marginals(given, lengths), *(getattr(rules, each.name) for each in fields(rules))]
    total = sum(float(each.abs().sum(dtype=torch.float64)) for each in counts)
    possible = torch.isfinite(grammar.log_partition(given, lengths)).cpu()
    of_sentence = 2 * lengths if isinstance(grammar, DenseGrammar) else 3 * lengths - 1
    expected = float(torch.where(possible, of_sentence, 0).sum())
    return total / expected if expected else None
