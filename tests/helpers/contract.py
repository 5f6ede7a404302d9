"""What every grammar must satisfy, written once: call ``check_grammar`` with a grammar and sentences of its words.

``check_questions`` goes through all questions and the log-emissions that may stand in place of words; of hidden Markov
models, which have no spans, it is the whole contract.
"""

import math
from collections.abc import Callable
from inspect import getdoc, isfunction

import pytest
import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars import Grammar

Ask = Callable[[Grammar, Tensor, Tensor], object]


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


# Every question with a way to ask it, about word ids or log-emissions.
QUESTIONS: dict[str, Ask] = {
    "log_partition": lambda g, words, lengths: g.log_partition(words, lengths),
    "pruned_log_partition": lambda g, words, lengths: g.pruned_log_partition(words, lengths)[0],
    "span_marginals": lambda g, words, lengths: g.span_marginals(words, lengths),
    "decode": lambda g, words, lengths: g.decode(words, lengths),
    "viterbi": lambda g, words, lengths: g.viterbi(words, lengths).log_probability,
    "k_best": lambda g, words, lengths: [[tree.spans for tree in trees] for trees in g.k_best(words, lengths, k=2)],
    "sample_trees": lambda g, words, lengths: g.sample_trees(words, lengths, samples=2, generator=seeded()).labels,
    "symbol_marginals": lambda g, words, lengths: g.symbol_marginals(words, lengths),
    "symbols_given_trees": lambda g, words, lengths: g.symbols_given_trees(
        words, lengths, trees=g.decode(words, lengths)
    )[0],
    "tag_marginals": lambda g, words, lengths: g.tag_marginals(words, lengths),
    "rule_counts": lambda g, words, lengths: g.rule_counts(words, lengths).root,
    "entropy": lambda g, words, lengths: g.entropy(words, lengths),
    "prefix_log_probabilities": lambda g, words, lengths: g.prefix_log_probabilities(words, lengths),
    "surprisal": lambda g, words, lengths: g.surprisal(words, lengths),
    "surprisal_parts": lambda g, words, lengths: g.surprisal_parts(words, lengths),
    "prefix_states": lambda g, words, lengths: g.prefix_states(words, lengths).log_prefix,
    "pruned_prefix_states": lambda g, words, lengths: g.pruned_prefix_states(words, lengths)[0].log_prefix,
    "next_word_log_probabilities": lambda g, words, lengths: g.next_word_log_probabilities(words, lengths),
    "next_word_entropy": lambda g, words, lengths: g.next_word_entropy(words, lengths),
    "sample": lambda g, words, lengths: g.sample(2, max_length=4, generator=seeded()).words,
    "growing_prefix": lambda g, words, lengths: g.growing_prefix().log_prefix,
    "termination_probability": lambda g, words, lengths: g.termination_probability(),
}
# Those whose answers are about words, and which a grammar without emissions has not.
ABOUT_WORDS = {"sample", "next_word_log_probabilities", "next_word_entropy"}


def questions_of(kind: type) -> set[str]:
    """The public methods of the interface, but for those that make another grammar or look words up."""
    return {name for name, value in vars(kind).items() if isfunction(value) and not name.startswith("_")} - {
        "detached",
        "of_sentence",
        "log_emissions",
    }


def check_questions(
    grammar: Grammar, without_emissions: Grammar, words: Tensor, lengths: Tensor, unsupported: set[str]
) -> None:
    """Every question has an answer or says what to use instead, about log-emissions as about the words that have them.

    ``without_emissions`` is the same grammar made without emissions.
    """
    assert questions_of(Grammar) == set(QUESTIONS)
    logs = grammar.log_emissions(words, lengths)
    for name, ask in QUESTIONS.items():
        assert hasattr(grammar, name)
        documentation = getdoc(getattr(type(grammar), name))
        assert documentation is not None
        assert documentation.splitlines()[0].endswith(".")
        if name in unsupported:
            refused = (lambda ask=ask: ask(grammar, words, lengths), lambda ask=ask: ask(grammar, logs, lengths))
            for question in refused:
                _check_refusal(question, f"{grammar.family} has no ", "use ")
            continue
        expected = ask(grammar, words, lengths)
        torch.testing.assert_close(ask(grammar, logs, lengths), expected, rtol=0, atol=0)
        if name in ABOUT_WORDS:
            _check_refusal(
                lambda ask=ask: ask(without_emissions, logs, lengths), "this grammar has no emissions", "give "
            )
        else:
            torch.testing.assert_close(ask(without_emissions, logs, lengths), expected, rtol=0, atol=0)
    _check_refusal(lambda: without_emissions.log_partition(words, lengths), "this grammar has no emissions", "give ")
    _check_refusal(lambda: grammar.log_partition(logs[None], lengths), "log-emissions have shape", "give [B, n, P]")
    one = int(lengths[0])
    alone = without_emissions.log_partition(logs[0, :one])
    torch.testing.assert_close(alone, grammar.log_partition(words, lengths)[:1])
    assert not hasattr(grammar, "a_question_that_nobody_has")


def _check_refusal(question: Callable[[], object], begins: str, advice: str) -> None:
    """One line that says what is missing, then what to do instead."""
    with pytest.raises(InputError) as caught:
        question()
    missing, _, instead = str(caught.value).partition("; ")
    assert missing.startswith(begins)
    assert advice in instead
    assert "\n" not in str(caught.value)


def check_grammar(grammar: Grammar, words: Tensor, lengths: Tensor) -> None:
    """Log-partition, marginals and trees are consistent with each other and do not depend on the batch."""
    log_z = grammar.log_partition(words, lengths)
    marginals = grammar.span_marginals(words, lengths)
    trees = grammar.decode(words, lengths)
    batch, n = words.shape
    assert log_z.shape == (batch,)
    assert marginals.shape == (batch, n + 1, n + 1)
    for b, length in enumerate(lengths.tolist()):
        assert len(trees[b]) == length - 1
        _check_tree(trees[b], length)
        if length == 1:
            assert log_z[b] == -math.inf
            continue
        torch.testing.assert_close(
            marginals[b].sum(), torch.tensor(length - 1.0, dtype=marginals.dtype), rtol=1e-4, atol=1e-4
        )
        assert ((marginals[b] >= 0) & (marginals[b] <= 1 + 1e-4)).all()
        assert not marginals[b, length + 1 :].any()
        assert not marginals[b, :, length + 1 :].any()
        alone = words[b : b + 1, :length]
        torch.testing.assert_close(grammar.log_partition(alone)[0], log_z[b], rtol=1e-5, atol=1e-5)
        assert grammar.decode(alone) == [trees[b]]
    _check_bonus(grammar, words, lengths)


def _check_tree(spans: list[tuple[int, int]], length: int) -> None:
    """A binary tree in preorder: n − 1 nested spans, the whole sentence first."""
    assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))
    assert not spans or spans[0] == (0, length)
    for i, j in spans:
        assert 0 <= i < j <= length
        assert j - i >= 2
        assert not any(i < a < j < b or a < i < b < j for a, b in spans)


def _check_bonus(grammar: Grammar, words: Tensor, lengths: Tensor) -> None:
    """A bonus of zero changes nothing; a forbidden span is in no tree."""
    batch, n = words.shape
    bonus = torch.zeros(batch, n + 1, n + 1)
    plain = grammar.log_partition(words, lengths)
    torch.testing.assert_close(grammar.log_partition(words, lengths, span_bonus=bonus), plain, rtol=1e-6, atol=1e-6)
    bonus[:, 0, 2] = -math.inf
    marginals = grammar.span_marginals(words, lengths, span_bonus=bonus)
    assert (marginals[:, 0, 2] == 0).all()
    assert (grammar.log_partition(words, lengths, span_bonus=bonus) <= plain + 1e-5).all()
