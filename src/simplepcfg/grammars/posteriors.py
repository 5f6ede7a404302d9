"""What a grammar believes about a sentence's derivations: symbols, tags, rule counts, entropy, divergence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars.emissions import check_words
from simplepcfg.ops.entropy import derivation_entropy, derivation_kl, tree_entropy, tree_kl
from simplepcfg.ops.inside import span_posteriors
from simplepcfg.ops.marginals import RuleCounts, rule_counts, symbol_posteriors, tag_posteriors

if TYPE_CHECKING:
    from simplepcfg.grammars.simple import SimpleGrammar

Rules = tuple[Tensor, Tensor, Tensor, Tensor]


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
    sizes = [(grammar.root.shape[-1], grammar.left.shape[-1] - grammar.root.shape[-1]) for grammar in (p, q)]
    if sizes[0] != sizes[1]:
        raise InputError(
            f"one grammar has N, P = {sizes[0]}, the other {sizes[1]}; derivations can be compared between grammars "
            "of the same symbols only: tree_kl_divergence compares the trees of short sentences"
        )
    return derivation_kl(
        rules_of(p, words, lengths), rules_of(q, words, lengths), lengths=lengths, span_bonus=span_bonus, **how(p)
    )


def entropy_of_trees(
    grammar: SimpleGrammar, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None
) -> Tensor:
    """See ``SimpleGrammar.tree_entropy``."""
    return tree_entropy(
        rules_of(grammar, words, lengths), lengths=lengths, span_bonus=span_bonus, precision=grammar.precision
    )


def divergence_of_trees(
    p: SimpleGrammar, q: SimpleGrammar, words: Tensor, lengths: Tensor | None, span_bonus: Tensor | None
) -> Tensor:
    """See ``SimpleGrammar.tree_kl_divergence``."""
    return tree_kl(
        rules_of(p, words, lengths),
        rules_of(q, words, lengths),
        lengths=lengths,
        span_bonus=span_bonus,
        precision=p.precision,
    )


def how(grammar: SimpleGrammar) -> dict[str, Any]:
    """In which precision and by which backend a grammar answers."""
    return {"precision": grammar.precision, "backend": grammar.backend}


def _in_graph(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
