"""Prefix probabilities of ordinary PCFGs: the naive form, every sentence of a finite grammar, simple grammars."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from attacks.references import prefix_probabilities
from dense_oracle import dense_with_zeros, random_dense_case
from finite_differences import check_derivatives
from random_grammars import random_case
from simplepcfg.errors import InputError, NumericalError
from simplepcfg.grammars import DenseEmissions, DenseGrammar, SimpleGrammar
from simplepcfg.ops.dense.prefix import GrowingDensePrefix, dense_prefixes

WORDS = torch.tensor([[1, 2, 3, 4, 5, 1], [6, 5, 0, 0, 0, 0], [3, 3, 3, 1, 0, 0], [0, 0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 2, 4, 0])


def emissions(preterminals: int, batched: bool = False) -> DenseEmissions:
    lead = (4,) if batched else ()
    scores = torch.randn(*lead, preterminals, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return DenseEmissions(scores.mul(2).log_softmax(-1))


def grammar(batched: bool = False, scale: float = 2.0) -> DenseGrammar:
    case = random_dense_case(4, 6, 3, 5, scale=scale, batched=batched)
    return DenseGrammar(case.root.detach(), case.rules.detach(), emissions(5, batched))


def of(tensor: Tensor, b: int, dims: int) -> Tensor:
    return tensor[b] if tensor.dim() > dims else tensor


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_against_the_naive_form(scale: float, batched: bool) -> None:
    given = grammar(batched, scale)
    found = given.prefix_log_probabilities(WORDS, LENGTHS)
    logs = given.emissions.log_probabilities(WORDS)
    for b, n in enumerate(LENGTHS.tolist()):
        parts = (logs[b, :n].exp(), of(given.root, b, 1), of(given.rules, b, 3))
        known = prefix_probabilities(*(part.numpy() for part in parts))
        assert known is not None
        expected = torch.tensor(known[0], dtype=torch.float64).log()
        torch.testing.assert_close(found[b, : n + 1], expected, rtol=1e-9, atol=1e-10)
        assert (found[b, n + 1 :] == -math.inf).all()
        alone = (
            given
            if not batched
            else DenseGrammar(given.root[b], given.rules[b], DenseEmissions(given.emissions.log_emit[b]))
        )
        torch.testing.assert_close(alone.prefix_log_probabilities(WORDS[b : b + 1, :n])[0], found[b, : n + 1])


def finite() -> DenseGrammar:
    """A grammar of sentences of two to four words: the first nonterminal has the second below it, which has words."""
    generator = torch.Generator().manual_seed(2)
    rules = torch.rand(2, 4, 4, generator=generator, dtype=torch.float64)
    rules[0, 0], rules[0, :, 0], rules[1, :2], rules[1, :, :2] = 0, 0, 0, 0
    rules = rules / rules.sum((1, 2), keepdim=True)
    root = torch.tensor([0.7, 0.3], dtype=torch.float64)
    emit = torch.randn(2, 3, generator=generator, dtype=torch.float64).log_softmax(-1)
    return DenseGrammar(root, rules, DenseEmissions(emit))


def test_every_sentence_of_a_finite_grammar() -> None:
    given = finite()
    sentences = [text for n in (2, 3, 4) for text in itertools.product(range(3), repeat=n)]
    words = torch.tensor([[*text, 0, 0][:4] for text in sentences])
    shares = given.log_partition(words, torch.tensor([len(text) for text in sentences])).exp().tolist()
    assert sum(shares) == pytest.approx(1)
    assert float(given.termination_probability()) == pytest.approx(1)
    for prefix in ((0,), (2, 1), (1, 0, 2), (0, 0, 0, 0)):
        m = len(prefix)
        begun = sum(share for text, share in zip(sentences, shares, strict=True) if text[:m] == prefix)
        found = given.prefix_log_probabilities(torch.tensor([prefix]))[0, m]
        assert math.exp(float(found)) == pytest.approx(begun)
    assert float(given.prefix_log_probabilities(torch.zeros(1, 5, dtype=torch.int64))[0, 5]) == -math.inf


@pytest.mark.parametrize("batched", [False, True])
def test_expanded_simple_grammars_answer_alike(batched: bool) -> None:
    case = random_case(4, 6, 3, 4, scale=2.0, batched=batched)
    one = SimpleGrammar(*(tensor.detach() for tensor in case.tensors()[1:]), emissions(4, batched))
    other = one.to_dense()
    for question in ("prefix_log_probabilities", "surprisal", "next_word_log_probabilities", "next_word_entropy"):
        torch.testing.assert_close(getattr(other, question)(WORDS, LENGTHS), getattr(one, question)(WORDS, LENGTHS))
    torch.testing.assert_close(other.termination_probability(), one.termination_probability())
    nothing = torch.zeros(4, 0, dtype=torch.int64)
    torch.testing.assert_close(other.next_word_log_probabilities(nothing), one.next_word_log_probabilities(nothing))


def test_prefixes_words_and_ends_add_up() -> None:
    """P(prefix) is that of the sentence that ends there and of the prefix with any word more."""
    given = grammar()
    states = given.prefix_states(WORDS, LENGTHS)
    following = given.next_word_log_probabilities(WORDS, LENGTHS)
    torch.testing.assert_close(following.exp().sum(-1), torch.ones(4, dtype=torch.float64))
    at = (torch.arange(4), LENGTHS)
    for word in range(9):
        longer = torch.nn.functional.pad(WORDS, (0, 1))
        longer[at] = word
        after = given.prefix_log_probabilities(longer, LENGTHS + 1)[torch.arange(4), LENGTHS + 1]
        torch.testing.assert_close(following[:, word], after - states.log_prefix[at])
    log_z = given.log_partition(WORDS[:3], LENGTHS[:3])
    torch.testing.assert_close(states.log_sentence[at][:3], log_z)
    torch.testing.assert_close(following[:3, -1] - given.surprisal(WORDS[:3], LENGTHS[:3]).sum(1), log_z)


def test_gradients() -> None:
    case = random_dense_case(2, 4, 2, 3)
    lengths = torch.tensor([4, 2])

    def function(*tensors: Tensor) -> Tensor:
        logits, root, rules = tensors
        rules = rules / rules.sum((1, 2), keepdim=True)  # prefixes exist for rules that sum to 1
        found = dense_prefixes(logits, root, rules, lengths=lengths).log_prefix
        return found[found > -math.inf]

    check_derivatives(function, case.tensors())


def test_zeros_stay_zeros() -> None:
    case = dense_with_zeros(random_dense_case(4, 6, 3, 5), seed=3)
    rules = (case.rules / case.rules.sum((1, 2), keepdim=True)).detach().requires_grad_()
    log_emissions = case.log_emissions.detach().clone()
    log_emissions[1, 2] = -math.inf  # nobody says this word
    found = dense_prefixes(log_emissions, case.root.detach() / case.root.detach().sum(), rules)
    assert (found.log_prefix[1, 3:] == -math.inf).all()
    assert not found.tags[1, 3:].any()
    assert not found.log_prefix.isnan().any()
    (slope,) = torch.autograd.grad(found.log_prefix[found.log_prefix > -math.inf].sum(), rules)
    assert slope.isfinite().all()


@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_growing_prefixes(scale: float) -> None:
    given = grammar(scale=scale)
    words = torch.tensor([[1, 2, 3, 4, 5, 1], [6, 5, 8, 2, 2, 3], [3, 3, 3, 1, 7, 7]])
    states = given.prefix_states(words)
    growing = given.growing_prefix()
    assert growing.length == 0
    growing.select(torch.tensor([0, 0, 0]))
    for m in range(7):
        torch.testing.assert_close(growing.log_prefix, states.log_prefix[:, m], rtol=0, atol=1e-10)
        torch.testing.assert_close(growing.log_sentence, states.log_sentence[:, m], rtol=0, atol=1e-10)
        torch.testing.assert_close(growing.next_tags(), states.tags[:, m], rtol=1e-9, atol=1e-12)
        if m == 3:
            branch = growing.copy()
        if m < 6:
            growing.push(given.emissions.log_probabilities(words[:, m : m + 1])[:, 0])
    assert (growing.length, branch.length) == (6, 3)
    at_once = branch.copy()
    at_once.select(torch.tensor([2]))
    at_once.push_all(given.emissions.log_probabilities(words[2:, 3:])[0])
    torch.testing.assert_close(at_once.log_prefix, growing.log_prefix[2:])
    torch.testing.assert_close(at_once.next_tags(), growing.next_tags()[2:])
    branch.select(torch.tensor([2, 0]))
    for m in range(3, 6):
        branch.push(given.emissions.log_probabilities(words[[2, 0], m : m + 1])[:, 0])
    torch.testing.assert_close(branch.log_prefix, growing.log_prefix[[2, 0]])
    torch.testing.assert_close(branch.log_end(), growing.log_end()[[2, 0]])
    branch.push(torch.full((2, 5), -math.inf, dtype=torch.float64))
    branch.push(given.emissions.log_probabilities(words[:2, :1])[:, 0])
    assert (branch.log_prefix == -math.inf).all()
    assert (branch.log_end() == -math.inf).all()
    assert not branch.next_tags().any()


def test_what_has_no_prefixes_is_named() -> None:
    given = grammar(batched=True)
    with pytest.raises(InputError, match="a growing prefix takes one grammar for all sentences"):
        GrowingDensePrefix(given.root, given.rules)
    with pytest.raises(InputError, match="give 4 lengths of 0 to n = 6"):
        given.prefix_log_probabilities(WORDS, torch.tensor([7, 1, 1, 1]))
    endless = torch.zeros(2, 4, 4, dtype=torch.float64)
    endless[:, 0, 3] = 1  # a nonterminal on the left, forever
    with pytest.raises(NumericalError, match="never produces a first word"):
        dense_prefixes(torch.zeros(1, 2, 2), torch.ones(2) / 2, endless)
    with pytest.raises(InputError, match="prefix probabilities need rules that sum to 1"):
        dense_prefixes(torch.zeros(1, 2, 2), torch.ones(2) / 2, torch.full((2, 4, 4), 0.5))


def test_endless_grammars() -> None:
    """A → A A with 2/3 and A → T T with 1/3: the least solution of q = 2/3 q² + 1/3 is a half."""
    rules = torch.zeros(1, 2, 2, dtype=torch.float64)
    rules[0, 0, 0], rules[0, 1, 1] = 2 / 3, 1 / 3
    given = DenseGrammar(torch.ones(1).double(), rules, DenseEmissions(torch.zeros(1, 1).double()))
    assert float(given.termination_probability()) == pytest.approx(0.5)
