"""The contract of all families: every question is answered, or refused with what to use instead."""

from copy import deepcopy
from dataclasses import fields

import pytest
import torch
from torch import Tensor

from contract import check_questions
from simplepcfg.errors import InputError
from simplepcfg.grammars import (
    DenseEmissions,
    DenseGrammar,
    Grammar,
    HiddenMarkovModel,
    RankGrammar,
    SimpleGrammar,
)

N, P, RANKS, VOCABULARY = 3, 4, 2, 9
WORDS, LENGTHS = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 0], [8, 1, 0, 0]]), torch.tensor([4, 3, 2])


def rules(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).softmax(-1)


FACTORS = {
    SimpleGrammar: (rules(N), rules(N, N + P), rules(N, N + P).flip(0)),
    DenseGrammar: (rules(N), rules(N, (N + P) ** 2).view(N, N + P, N + P)),
    RankGrammar: (rules(N), rules(N, RANKS), rules(RANKS, N + P), rules(RANKS, N + P).flip(0)),
    HiddenMarkovModel: (rules(P), rules(P, P)),
}
UNSUPPORTED = {
    DenseGrammar: {"symbols_given_trees"},
    RankGrammar: {"symbols_given_trees"},
    HiddenMarkovModel: {
        "span_marginals",
        "decode",
        "viterbi",
        "k_best",
        "sample_trees",
        "symbol_marginals",
        "symbols_given_trees",
        "rule_counts",
        "entropy",
        "termination_probability",
    },
}


@pytest.mark.parametrize("family", FACTORS)
def test_grammars_can_be_compared_and_be_keys(family: type[Grammar]) -> None:
    """They are equal to themselves alone: whether tensors are equal is no single answer."""
    one, other = (family(*FACTORS[family], DenseEmissions(rules(P, VOCABULARY).log())) for _ in range(2))
    assert one == one
    assert one != other
    assert len({one, other, one}) == 2


@pytest.mark.parametrize("family", FACTORS)
def test_every_question(family: type[Grammar]) -> None:
    grammar = family(*FACTORS[family], DenseEmissions(rules(P, VOCABULARY).log()))
    check_questions(grammar, family(*FACTORS[family]), WORDS, LENGTHS, UNSUPPORTED.get(family, set()))


@pytest.mark.parametrize("family", FACTORS)
def test_copies(family: type[Grammar]) -> None:
    """Detached, or of one sentence of a batch, each tensor is what it was."""
    plain = FACTORS[family]
    log_emit = rules(P, VOCABULARY).log()
    leaves = [factor.clone().requires_grad_() for factor in plain]
    grammar = family(*leaves, DenseEmissions(log_emit.clone().requires_grad_()))
    expected = grammar.log_partition(WORDS, LENGTHS)
    assert expected.requires_grad
    detached = grammar.detached()
    assert type(detached) is family
    assert not detached.log_partition(WORDS, LENGTHS).requires_grad
    torch.testing.assert_close(detached.log_partition(WORDS, LENGTHS), expected.detach())
    batch = family(*(torch.stack([factor, factor]) for factor in plain), DenseEmissions(torch.stack([log_emit] * 2)))
    torch.testing.assert_close(batch.of_sentence(1).log_partition(WORDS, LENGTHS), expected.detach())


@pytest.mark.parametrize("family", FACTORS)
def test_log_emissions_of_other_preterminals_are_refused(family: type[Grammar]) -> None:
    with pytest.raises(InputError, match=r"\d"):
        family(*FACTORS[family]).log_partition(torch.zeros(1, 3, P + 1, dtype=torch.float64))


def test_gradients_reach_log_emissions() -> None:
    """The gradient of log Z by the log-emissions is the tag marginal."""
    grammar = SimpleGrammar(*FACTORS[SimpleGrammar])
    logs = torch.randn(5, P, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(grammar.log_partition(logs).sum(), logs)
    torch.testing.assert_close(slope, grammar.tag_marginals(logs.detach())[0])


def test_sizes() -> None:
    found = [family(*FACTORS[family]) for family in (SimpleGrammar, DenseGrammar, RankGrammar)]
    assert [grammar.nonterminals for grammar in found] == [N, N, N]
    assert [grammar.span_numbers for grammar in found] == [N, N * (5 + N // 6) // 2, RANKS]
    chain = HiddenMarkovModel(*FACTORS[HiddenMarkovModel])
    assert chain.span_numbers == 1
    with pytest.raises(InputError, match="hmm has no nonterminals"):
        _ = chain.nonterminals


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("family", FACTORS)
def test_rules_that_change_in_place(family: type[Grammar], copied: bool) -> None:
    """What is kept of the rules from one question to the next, such as left corners, follows changes in place."""
    emissions = DenseEmissions(rules(P, VOCABULARY).log())
    grammar = family(*(factor.clone() for factor in FACTORS[family]), emissions)
    questions = {"surprisal", "log_partition", "rule_counts"} - UNSUPPORTED.get(family, set())
    for question in questions:
        getattr(grammar, question)(WORDS, LENGTHS)
    for field in fields(grammar)[: len(FACTORS[family])]:
        factor = getattr(grammar, field.name)
        factor.copy_(factor.flip(-1))
    fresh = family(*(factor.flip(-1) for factor in FACTORS[family]), emissions)
    grammar = deepcopy(grammar) if copied else grammar
    for question in questions:
        found, expected = (getattr(each, question)(WORDS, LENGTHS) for each in (grammar, fresh))
        if question == "rule_counts":
            found, expected = found.root, expected.root
        assert torch.equal(found, expected), question


@pytest.mark.parametrize("family", FACTORS)
def test_autocast_changes_no_answer(family: type[Grammar]) -> None:
    """Nor what is kept for later questions."""
    emissions = DenseEmissions(rules(P, VOCABULARY).log().float())
    grammar = family(*(factor.float() for factor in FACTORS[family]), emissions)
    questions = {"log_partition", "span_marginals", "tag_marginals", "entropy", "surprisal"}
    for question in sorted(questions - UNSUPPORTED.get(family, set())):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = getattr(deepcopy(grammar), question)(WORDS, LENGTHS)
            getattr(grammar, question)(WORDS, LENGTHS)
        expected = getattr(deepcopy(grammar), question)(WORDS, LENGTHS)
        assert torch.equal(found, expected), question
        assert torch.equal(getattr(grammar, question)(WORDS, LENGTHS), expected), question


@pytest.mark.parametrize("family", FACTORS)
def test_lengths_as_a_list(family: type[Grammar]) -> None:
    grammar = family(*FACTORS[family], DenseEmissions(rules(P, VOCABULARY).log()))
    questions = {"log_partition", "span_marginals", "tag_marginals", "prefix_log_probabilities", "surprisal"}
    questions |= {"next_word_log_probabilities", "next_word_entropy", "entropy", "decode"}
    for question in questions - UNSUPPORTED.get(family, set()):
        found, expected = (getattr(grammar, question)(WORDS, each) for each in (LENGTHS.tolist(), LENGTHS))
        assert found == expected if isinstance(found, list) else torch.equal(found, expected), question


@pytest.mark.parametrize("words", [WORDS[0], WORDS > 0, WORDS.tolist(), WORDS[None], WORDS.to(torch.complex64)])
@pytest.mark.parametrize("family", FACTORS)
def test_words_that_are_no_batch_of_integers(family: type[Grammar], words: object) -> None:
    grammar = family(*FACTORS[family], DenseEmissions(rules(P, VOCABULARY).log()))
    for question in ("log_partition", "surprisal"):
        with pytest.raises(InputError, match=r"^words .*; give .*word ids \[B, n\]"):
            getattr(grammar, question)(words)


def test_words_of_any_integer_dtype() -> None:
    grammar = SimpleGrammar(*FACTORS[SimpleGrammar], DenseEmissions(rules(P, VOCABULARY).log()))
    expected = grammar.log_partition(WORDS, LENGTHS)
    for kind in (torch.uint8, torch.int16, torch.int32):
        assert torch.equal(grammar.log_partition(WORDS.to(kind), LENGTHS), expected)
