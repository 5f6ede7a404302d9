"""A grammar from left to right: surprisals, next words and entropies, for both kinds of emissions."""

import math

import pytest
import torch

from random_grammars import random_case
from random_grammars import simple_grammar as grammar
from simplepcfg.grammars import DenseEmissions, SimpleGrammar, prefix

WORDS = torch.tensor([[1, 2, 3, 4, 5, 1], [6, 5, 0, 0, 0, 0], [3, 3, 3, 1, 0, 0], [2, 0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 2, 4, 1])


@pytest.mark.parametrize("emissions", ["dense", "batched", "factored"])
def test_chain_rule(emissions: str) -> None:
    """The surprisals of a sentence and of its end add up to −log p."""
    one = grammar(emissions)
    surprisal = one.surprisal(WORDS, LENGTHS)
    end = one.next_word_log_probabilities(WORDS, LENGTHS)[:, -1]
    torch.testing.assert_close(end - surprisal.sum(1), one.log_partition(WORDS, LENGTHS), rtol=0, atol=1e-12)
    assert surprisal.shape == WORDS.shape
    assert not surprisal[1, 2:].any()


@pytest.mark.parametrize("emissions", ["dense", "batched", "factored"])
def test_next_words(emissions: str) -> None:
    one = grammar(emissions)
    found = one.next_word_log_probabilities(WORDS, LENGTHS)
    assert found.shape == (4, 10)
    torch.testing.assert_close(found.exp().sum(1), torch.ones(4, dtype=torch.float64))
    if emissions == "factored":
        assert (found[:, 0] == -math.inf).all()  # padding is no word
    before = one.prefix_log_probabilities(WORDS, LENGTHS)[torch.arange(4), LENGTHS]
    for word in range(1, 9):
        longer = torch.cat([WORDS, torch.zeros(4, 1, dtype=torch.int64)], 1)
        longer[torch.arange(4), LENGTHS] = word
        after = one.prefix_log_probabilities(longer, LENGTHS + 1)[torch.arange(4), LENGTHS + 1]
        torch.testing.assert_close(found[:, word], after - before, rtol=0, atol=1e-11)


def test_the_first_word() -> None:
    one = grammar()
    found = one.next_word_log_probabilities(torch.zeros(1, 0, dtype=torch.int64))[0]
    assert found[-1] == -math.inf  # there is no empty sentence
    single = one.prefix_log_probabilities(torch.arange(9)[:, None])[:, 1]
    torch.testing.assert_close(found[:-1], single, rtol=0, atol=1e-12)


@pytest.mark.parametrize("emissions", ["dense", "batched", "factored"])
@pytest.mark.parametrize("chunk", [1, 1000, 1 << 26])
def test_entropies(emissions: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is held at a time."""
    monkeypatch.setattr(prefix, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(prefix, "PREFIX_BYTES", chunk)
    one = grammar(emissions)
    found = one.next_word_entropy(WORDS, LENGTHS)
    for m in range(7):
        cut = LENGTHS.clamp(max=m)
        logs = one.next_word_log_probabilities(WORDS[:, :m], cut)
        expected = torch.special.entr(logs.exp()).sum(1)
        exists = m <= LENGTHS
        torch.testing.assert_close(found[exists, m], expected[exists], rtol=1e-11, atol=1e-12)
        assert not found[~exists, m].any()


def test_an_impossible_word_and_what_follows() -> None:
    log_emit = torch.full((7, 9), -math.inf, dtype=torch.float64)
    log_emit[:, 1:4] = math.log(1 / 3)
    one = grammar()
    one = SimpleGrammar(one.root, one.left, one.right, DenseEmissions(log_emit))
    words = torch.tensor([[1, 2, 5, 1]])
    surprisal = one.surprisal(words)
    assert surprisal[0, :2].isfinite().all()
    assert (surprisal[0, 2:] == math.inf).all()
    assert (one.next_word_log_probabilities(words) == -math.inf).all()
    entropy = one.next_word_entropy(words)
    assert (entropy[0, :3] > 0).all()
    assert not entropy[0, 3:].any()


def test_closure_is_kept_without_gradients() -> None:
    one = grammar()
    assert one.closure() is one.closure()
    left = one.left.clone().requires_grad_()
    other = SimpleGrammar(one.root, left, one.right, one.emissions)
    other.closure()
    assert not other.closure().carry.requires_grad
    found = other.surprisal(WORDS, LENGTHS)
    torch.testing.assert_close(found, one.surprisal(WORDS, LENGTHS), rtol=0, atol=1e-11)
    assert not found.requires_grad
    assert not other.next_word_log_probabilities(WORDS, LENGTHS).requires_grad


def test_termination() -> None:
    assert grammar().termination_probability().shape == ()
    several = grammar("batched").termination_probability()
    assert several.shape == (4,)
    assert ((several > 0) & (several <= 1)).all()


def test_float32_entropy_over_many_words() -> None:
    """Each probability is rounded, and their entropies are summed in float64."""
    case = random_case(4, 6, 65, 130, scale=2.0, dtype=torch.float64)
    root, left, right = (tensor.detach() for tensor in case.tensors()[1:])
    logits = torch.randn(130, 5000, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    exact = SimpleGrammar(root, left, right, DenseEmissions((2 * logits).log_softmax(-1)))
    emissions = DenseEmissions(exact.emissions.of_words(0, 5000).T.float())
    rounded = SimpleGrammar(root.float(), left.float(), right.float(), emissions)
    found, expected = (one.next_word_entropy(WORDS, LENGTHS) for one in (rounded, exact))
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=0)


def test_float32() -> None:
    exact = grammar()
    assert isinstance(exact.emissions, DenseEmissions)
    emissions = DenseEmissions(exact.emissions.log_emit.float())
    rounded = SimpleGrammar(exact.root.float(), exact.left.float(), exact.right.float(), emissions)
    found = rounded.surprisal(WORDS, LENGTHS)
    assert found.dtype == torch.float64  # differences of log-probabilities keep their digits
    torch.testing.assert_close(found, exact.surprisal(WORDS, LENGTHS), rtol=0, atol=2e-6)
    entropies = rounded.next_word_entropy(WORDS, LENGTHS)
    torch.testing.assert_close(entropies, exact.next_word_entropy(WORDS, LENGTHS), rtol=0, atol=2e-6)
