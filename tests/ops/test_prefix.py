"""Prefix probabilities against enumeration, the naive form, hand-written special cases and what must hold exactly."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from prefix_cases import BACKENDS, naive, next_word, plain, short_grammar, with_every_word
from random_grammars import random_case, rules_and_sentences
from simplepcfg.errors import InputError, NumericalError
from simplepcfg.ops.arguments import SimpleRules
from simplepcfg.ops.inside import inside
from simplepcfg.ops.prefix import (
    GrowingPrefix,
    left_corner_closure,
    prefix_log_probabilities,
    prefix_states,
    termination_probabilities,
)


@pytest.mark.parametrize("seed", range(3))
def test_sum_over_all_sentences(seed: int) -> None:
    root, left, right, log_emit = short_grammar(seed)
    longest, begin = 9, (1, 0, 1)
    total, missing = torch.zeros(4, dtype=torch.float64), 1.0
    for length in range(2, longest + 1):
        words = torch.tensor(list(itertools.product(range(2), repeat=length)))
        probability = inside(log_emit.T[words], root, left, right).exp()
        missing -= float(probability.sum())
        for m in range(4):
            if m <= length:
                total[m] += probability[(words[:, :m] == torch.tensor(begin[:m])).all(1)].sum()
    found = prefix_log_probabilities(*rules_and_sentences(log_emit.T[torch.tensor([begin])], root, left, right))[
        0
    ].exp()
    # Sentences that were not enumerated can only add, and no more than is missing in all.
    assert 0 <= missing < 1e-6
    assert ((found - total >= -1e-12) & (found - total <= missing + 1e-12)).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("batch", "n", "nonterminals", "preterminals", "batched", "lengths"),
    [
        (1, 1, 1, 1, False, [1]),
        (3, 5, 3, 4, False, [5, 5, 5]),
        (4, 6, 2, 5, False, [6, 2, 1, 4]),
        (3, 5, 4, 1, True, [3, 5, 1]),
        (2, 7, 3, 3, True, [7, 7]),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_against_the_naive_form(
    backend: str,
    batch: int,
    n: int,
    nonterminals: int,
    preterminals: int,
    batched: bool,
    lengths: list[int],
    scale: float,
) -> None:
    tensors = plain(random_case(batch, n, nonterminals, preterminals, batched=batched, scale=scale))
    given_lengths = torch.tensor(lengths)
    expected = naive(tensors, given_lengths)
    # What lies beyond a sentence is never read.
    for b, length in enumerate(lengths):
        tensors[0][b, length:] = math.nan
    states = prefix_states(*rules_and_sentences(*tensors, lengths=given_lengths), backend=backend)
    found = states.log_prefix
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    if backend != "triton":  # the same states, which its interpreter takes long to make
        assert torch.equal(
            found, prefix_log_probabilities(*rules_and_sentences(*tensors, lengths=given_lengths), backend=backend)
        )
    for b, length in enumerate(lengths):
        assert (found[b, length + 1 :] == -math.inf).all()
        if length > 1:
            alone = [t[b] if t.dim() > dims else t for t, dims in zip(tensors[1:], (1, 2, 2), strict=True)]
            whole = inside(tensors[0][b : b + 1, :length], *alone)[0]
            torch.testing.assert_close(states.log_sentence[b, length], whole, rtol=0, atol=1e-12)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(0, 6),
    nonterminals=st.integers(1, 5),
    scale=st.sampled_from([0.5, 2.0, 8.0]),
)
@settings(max_examples=25, deadline=None)
def test_a_prefix_is_a_sentence_or_goes_on(seed: int, n: int, nonterminals: int, scale: float) -> None:
    tensors = plain(random_case(1, max(n, 1), nonterminals, 3, scale=scale, seed=seed))
    generator = torch.Generator().manual_seed(seed)
    log_emit = (torch.randn(3, 4, generator=generator, dtype=torch.float64) * scale).log_softmax(-1)
    words = torch.randint(0, 4, (n,), generator=generator)
    rules = tensors[1:]
    prefix = naive((log_emit.T[words][None], *rules))[0, -1].exp() if n else torch.tensor(1.0, dtype=torch.float64)
    sentence = inside(log_emit.T[words][None], *rules)[0].exp() if n else torch.tensor(0.0, dtype=torch.float64)
    longer = with_every_word(log_emit.T[words], log_emit)
    # That a row of left sums to 1 but for rounding counts once for each step down a left edge: 10 and fewer as a rule.
    identity = torch.eye(nonterminals, dtype=torch.float64)
    left_edge = torch.linalg.inv(identity - rules[1][:, :nonterminals]).sum(1).max()
    limits = {"rtol": 1e-13 * max(10.0, float(left_edge)), "atol": 0.0}
    for found in (naive((longer, *rules)), prefix_log_probabilities(*rules_and_sentences(longer, *rules))):
        torch.testing.assert_close(sentence + found[:, -1].exp().sum(), prefix, **limits)
    after = next_word(*rules_and_sentences(log_emit.T[words][None], *rules))
    torch.testing.assert_close(after.tags @ log_emit.exp() * prefix, found[:, -1].exp()[None], **limits)
    torch.testing.assert_close(after.log_end.exp()[0] * prefix, sentence, **limits)
    torch.testing.assert_close(after.tags.sum() + after.log_end.exp()[0], torch.ones_like(prefix), **limits)


def test_mass_of_endless_sentences_is_in_every_prefix() -> None:
    """A grammar that splits more often than it stops: next words still sum to 1, and prefixes never fade away."""
    rules = torch.tensor([[0.8, 0.2]], dtype=torch.float64)
    root = torch.ones(1, dtype=torch.float64)
    ends = termination_probabilities(SimpleRules(root, rules, rules))
    # q = (0.8 q + 0.2)², the smaller root.
    torch.testing.assert_close(ends, torch.tensor(1 / 16, dtype=torch.float64))
    found = prefix_log_probabilities(
        *rules_and_sentences(torch.zeros(1, 60, 1, dtype=torch.float64), root, rules, rules)
    )[0].exp()
    assert (found.diff() <= 1e-15).all()
    torch.testing.assert_close(found[-1], 1 - ends, rtol=1e-3, atol=0)
    after = next_word(*rules_and_sentences(torch.zeros(1, 60, 1, dtype=torch.float64), root, rules, rules))
    torch.testing.assert_close(after.tags.sum() + after.log_end.exp()[0], root[0], rtol=1e-12, atol=0)


def test_termination_of_a_consistent_and_a_critical_grammar() -> None:
    for stop in (0.9, 0.5):  # at a half the two roots of q = (L q + l)(R q + r) are one
        rules = torch.tensor([[1 - stop, stop]], dtype=torch.float64)
        found = termination_probabilities(SimpleRules(torch.ones(1, dtype=torch.float64), rules, rules))
        torch.testing.assert_close(found, torch.ones_like(found), rtol=0, atol=1e-7)


def test_right_linear_grammars_are_hidden_markov_models() -> None:
    """A → T A' or T T': the words are a Markov chain's, and their prefixes the forward algorithm's."""
    states, vocabulary, n = 3, 5, 8
    generator = torch.Generator().manual_seed(3)

    def rows(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64).softmax(-1)

    initial, transition, stop, emit = rows(states), rows(states, states), rows(2)[0], rows(states, vocabulary)
    words = torch.randint(0, vocabulary, (n,), generator=generator)
    # Nonterminal s says its own word first; then nonterminal t goes on, or preterminal t says the last word.
    left = torch.cat([torch.zeros(states, states, dtype=torch.float64), torch.eye(states, dtype=torch.float64)], 1)
    right = torch.cat([(1 - stop) * transition, stop * transition], 1)
    found = prefix_log_probabilities(*rules_and_sentences(emit.log().T[words][None], initial, left, right))[0].exp()
    goes_on = initial * emit[:, words[0]]  # nonterminals that have said the first word
    expected = [torch.ones((), dtype=torch.float64), goes_on.sum()]
    for word in words[1:]:
        reached = goes_on @ transition * emit[:, word]
        expected.append(reached.sum())
        goes_on = reached * (1 - stop)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-12, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_impossible_words(backend: str) -> None:
    root, left, right, log_emit = short_grammar(vocabulary=4)
    log_emit = torch.cat([log_emit, torch.full((2, 1), -math.inf, dtype=torch.float64)], 1)
    words = torch.tensor([[0, 4, 2], [1, 2, 3], [4, 0, 0]])
    found = prefix_log_probabilities(*rules_and_sentences(log_emit.T[words], root, left, right), backend=backend)
    assert (found[0, 2:] == -math.inf).all()
    assert (found[2, 1:] == -math.inf).all()
    assert found[1].isfinite().all()
    assert found[0, :2].isfinite().all()
    after = next_word(*rules_and_sentences(log_emit.T[words], root, left, right), backend=backend)
    assert not after.tags[[0, 2]].any()
    assert (after.log_end[[0, 2]] == -math.inf).all()
    assert not after.tags.isnan().any()


def test_what_no_rule_reaches_stays_impossible() -> None:
    """The closure is a matrix inverse: its rounding must not make a sentence possible."""
    generator = torch.Generator().manual_seed(0)
    nonterminals = 8
    left = torch.rand(nonterminals, 2 * nonterminals, generator=generator, dtype=torch.float64)
    # The first half never has a child of the second, and only the second has the last preterminal as a left child.
    half = nonterminals // 2
    left[:half, half:nonterminals] = 0.0
    left[:half, -1] = 0.0
    left /= left.sum(1, keepdim=True)
    right = left.clone()
    root = torch.tensor([1.0] * half + [0.0] * half, dtype=torch.float64) / half
    log_emissions = torch.full((1, 2, nonterminals), -math.inf, dtype=torch.float64)
    log_emissions[..., -1] = 0.0
    assert prefix_log_probabilities(*rules_and_sentences(log_emissions, root, left, right))[0, 1] == -math.inf
    assert (naive((log_emissions, root, left, right))[0, 1:] == -math.inf).all()


@pytest.mark.parametrize(("n", "scale"), [(100, 1.0), (60, 8.0), (150, 16.0), (100, 30.0)])
def test_float32_holds_over_long_sentences(n: int, scale: float) -> None:
    case = random_case(2, n, 24, 48, scale=scale, seed=5)
    exact = prefix_log_probabilities(*rules_and_sentences(*plain(case)))
    found = prefix_log_probabilities(*rules_and_sentences(*plain(case, torch.float32)))
    assert found.isfinite().all()
    # A surprisal is a difference of neighbours; rules rounded to float32 alone change it by about 1e-6.
    torch.testing.assert_close(found.diff(), exact.diff(), rtol=1e-5, atol=1e-5)
    states = prefix_states(*rules_and_sentences(*plain(case, torch.float32)))
    mass = states.next_tags(slice(None)).sum(-1) + (states.log_sentence - states.log_prefix).exp()
    torch.testing.assert_close(mass, torch.ones_like(mass), rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_batch_makes_no_difference(backend: str) -> None:
    n = 7 if backend == "torch" else 4
    tensors = plain(random_case(4, n, 5, 6, scale=3.0), torch.float32)
    lengths = torch.tensor([n, 3, 1, n - 2])
    after = next_word(*rules_and_sentences(*tensors, lengths=lengths), backend=backend)
    for b, length in enumerate(lengths.tolist()):
        own = (tensors[0][b : b + 1, :length], *tensors[1:])
        one = next_word(*rules_and_sentences(*own), backend=backend)
        torch.testing.assert_close(after.log_prefix[b], one.log_prefix[0], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(after.tags[b], one.tags[0], rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(after.log_end[b], one.log_end[0], rtol=1e-5, atol=1e-5)


def test_no_first_word_is_said() -> None:
    root = torch.tensor([0.5, 0.5], dtype=torch.float64)
    left = torch.tensor([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]], dtype=torch.float64)
    right = torch.full((2, 3), 1 / 3, dtype=torch.float64)
    with pytest.raises(NumericalError, match=r"nonterminal 1 has .* never produces a first word") as error:
        left_corner_closure(SimpleRules(root, left, right))
    assert "\n" not in str(error.value)
    nearly = torch.tensor([[0.2, 0.3, 0.5], [0.0, 1 - 1e-9, 1e-9]], dtype=torch.float64)
    closure = left_corner_closure(SimpleRules(root, nearly, right))
    torch.testing.assert_close(closure.start @ nearly[:, 2], torch.tensor(1.0, dtype=torch.float64))


def test_refusals() -> None:
    case = random_case(2, 3, 2, 3)
    tensors = plain(case)
    with pytest.raises(InputError, match="row 1 of right sums to"):
        prefix_log_probabilities(*rules_and_sentences(*tensors[:3], tensors[3] * torch.tensor([[1.0], [0.5]])))
    with pytest.raises(InputError, match="gives no prefix probabilities"):
        prefix_log_probabilities(*rules_and_sentences(*tensors), backend="log_sum_exp")
    with pytest.raises(InputError, match="cannot be differentiated"):
        prefix_states(*rules_and_sentences(*case.tensors()))
    with pytest.raises(InputError, match="2 lengths of 0 to n = 3"):
        next_word(*rules_and_sentences(*tensors, lengths=torch.tensor([4, 1])))
    with pytest.raises(InputError, match="leave the bonus out"):
        prefix_states(*rules_and_sentences(*tensors, span_bonus=torch.zeros(2, 4, 4)))
    with pytest.raises(InputError, match="one grammar for all"):
        GrowingPrefix(SimpleRules(*plain(random_case(2, 3, 2, 3, batched=True))[1:]))


def test_the_empty_prefix() -> None:
    tensors = plain(random_case(2, 3, 2, 3))
    none = next_word(*rules_and_sentences(tensors[0][:, :0], *tensors[1:]))
    assert (none.log_prefix == 0).all()
    assert (none.log_end == -math.inf).all()
    torch.testing.assert_close(none.tags.sum(-1), torch.ones(2, dtype=torch.float64))
    mixed = next_word(*rules_and_sentences(*tensors, lengths=torch.tensor([0, 3])))
    torch.testing.assert_close(mixed.tags[0], none.tags[0])


@pytest.mark.gpu
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_a_gpu(backend: str, dtype: torch.dtype) -> None:
    case = random_case(5, 30, 65, 130, scale=4.0, seed=1)
    lengths = torch.tensor([30, 1, 17, 30, 2])
    expected = next_word(*rules_and_sentences(*plain(case), lengths=lengths))
    on_gpu = [tensor.cuda() for tensor in plain(case, dtype)]
    limits = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-11}
    found = next_word(*rules_and_sentences(*on_gpu, lengths=lengths.cuda()), backend=backend)
    torch.testing.assert_close(found.log_prefix.cpu(), expected.log_prefix, **limits)
    torch.testing.assert_close(found.tags.cpu(), expected.tags, **limits)
    torch.testing.assert_close(found.log_end.cpu(), expected.log_end, **limits)
    growing = GrowingPrefix(SimpleRules(*on_gpu[1:]))
    for m in range(3):
        growing.push(on_gpu[0][:1, m])
    alone = prefix_log_probabilities(*rules_and_sentences(*plain(case)))[:1, 3]
    torch.testing.assert_close(growing.log_prefix.cpu(), alone, **limits)
