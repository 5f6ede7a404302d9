"""What a grammar believes about a sentence's derivations: symbols, tags, rule counts, entropy, divergence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars.emissions import check_words
from simplepcfg.ops.dense.tree_weights import dense_tree_log_weights
from simplepcfg.ops.entropy import derivation_entropy, derivation_kl, tree_log_weights
from simplepcfg.ops.entropy.trees import entropy_of_weights, kl_of_weights
from simplepcfg.ops.inside import span_posteriors
from simplepcfg.ops.marginals import RuleCounts, rule_counts, symbol_posteriors, tag_posteriors

if TYPE_CHECKING:
    from simplepcfg.grammars.simple import SimpleGrammar

Rules = tuple[Tensor, Tensor, Tensor, Tensor]
AnyGrammar = Any  # a simple, dense or rank grammar: they import this module


def rules_of(grammar: SimpleGrammar, words: Tensor, lengths: Tensor | None) -> Rules:
    """Log-emissions of the words, root, left, right; every question comes by here, and its word ids are checked."""
    check_words(words, lengths, grammar.emissions)
    return grammar.emissions.log_probabilities(words), grammar.root, grammar.left, grammar.right


def symbols(
    grammar: SimpleGrammar, words: Tensor, lengths: Tensor | None, spans: Tensor | None, span_bonus: Tensor | None
) -> Tensor:
    """See ``SimpleGrammar.symbol_marginals``."""
    with torch.no_grad():
        _, found = symbol_posteriors(
            *rules_of(grammar, words, lengths), spans=spans, lengths=lengths, span_bonus=span_bonus, **how(grammar)
        )
    return found


def spans(grammar: SimpleGrammar, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None) -> Tensor:
    """See ``SimpleGrammar.span_marginals``."""
    rules = rules_of(grammar, words, lengths)
    _, found = span_posteriors(
        *rules, lengths=lengths, span_bonus=span_bonus, create_graph=_in_graph(*rules, span_bonus), **how(grammar)
    )
    return found


def tags(grammar: SimpleGrammar, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None) -> Tensor:
    """See ``SimpleGrammar.tag_marginals``."""
    rules = rules_of(grammar, words, lengths)
    _, found = tag_posteriors(
        *rules, lengths=lengths, span_bonus=span_bonus, create_graph=_in_graph(*rules, span_bonus), **how(grammar)
    )
    return found


def counts(grammar: SimpleGrammar, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None) -> RuleCounts:
    """See ``SimpleGrammar.rule_counts``."""
    rules = rules_of(grammar, words, lengths)
    _, found = rule_counts(
        *rules, lengths=lengths, span_bonus=span_bonus, create_graph=_in_graph(*rules, span_bonus), **how(grammar)
    )
    return found


def entropy(grammar: SimpleGrammar, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None) -> Tensor:
    """See ``SimpleGrammar.entropy``."""
    return derivation_entropy(rules_of(grammar, words, lengths), lengths=lengths, span_bonus=span_bonus, **how(grammar))


def divergence(
    p: SimpleGrammar, q: SimpleGrammar, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None
) -> Tensor:
    """See ``SimpleGrammar.kl_divergence``."""
    if not hasattr(q, "left"):
        raise InputError(
            f"{type(q).__name__} has no left and right rules to compare with; ask grammar.to_dense().kl_divergence, "
            "or tree_kl_divergence for the trees of short sentences"
        )
    sizes = [(grammar.root.shape[-1], grammar.left.shape[-1] - grammar.root.shape[-1]) for grammar in (p, q)]
    if sizes[0] != sizes[1]:
        raise InputError(
            f"one grammar has N, P = {sizes[0]}, the other {sizes[1]}; derivations can be compared between grammars "
            "of the same symbols only: tree_kl_divergence compares the trees of short sentences"
        )
    return derivation_kl(
        rules_of(p, words, lengths), rules_of(q, words, lengths), lengths=lengths, span_bonus=span_bonus, **how(p)
    )


def entropy_of_trees(grammar: AnyGrammar, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None) -> Tensor:
    """See ``SimpleGrammar.tree_entropy``."""
    return entropy_of_weights(_tree_weights(grammar, words, lengths, span_bonus))


def divergence_of_trees(
    p: AnyGrammar, q: AnyGrammar, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None
) -> Tensor:
    """See ``SimpleGrammar.tree_kl_divergence``."""
    return kl_of_weights(*(_tree_weights(grammar, words, lengths, span_bonus) for grammar in (p, q)))


def _tree_weights(grammar: AnyGrammar, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None) -> Tensor:
    """Of every bare tree, in an order that is the same for all grammars."""
    if hasattr(grammar, "to_simple"):
        grammar = grammar.to_simple()
    if hasattr(grammar, "rules"):
        check_words(words, lengths, grammar.emissions)
        rules = (grammar.emissions.log_probabilities(words), grammar.root, grammar.rules)
        return dense_tree_log_weights(*rules, lengths=lengths, span_bonus=span_bonus)
    if not hasattr(grammar, "left"):
        raise InputError(f"{type(grammar).__name__} has no trees to compare; give another grammar")
    given = {"lengths": lengths, "span_bonus": span_bonus}
    return tree_log_weights(rules_of(grammar, words, lengths), precision=grammar.precision, **given)


def how(grammar: SimpleGrammar) -> dict[str, Any]:
    """In which precision and by which backend a grammar answers."""
    return {"precision": grammar.precision, "backend": grammar.backend}


def _in_graph(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
