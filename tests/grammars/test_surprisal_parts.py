"""The two parts of surprisal, against enumeration of a grammar whose sentences are finitely many."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import product

import pytest
import torch
from torch import Tensor

from random_grammars import random_case
from random_grammars import simple_grammar as grammar
from simplepcfg.grammars import DenseEmissions, HiddenMarkovModel, SimpleGrammar, prefix

WORDS = torch.tensor([[1, 2, 3, 4, 5, 1], [6, 5, 0, 0, 0, 0], [3, 3, 3, 1, 0, 0], [2, 0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 2, 4, 1])
N, P, V = 3, 3, 5
Sequences = dict[tuple[int, ...], float]  # the probability of each sequence of preterminals


def finite_grammar() -> SimpleGrammar:
    """Every nonterminal has children of higher numbers only, so that no sentence has more than eight words."""
    generator = torch.Generator().manual_seed(3)

    def logits(*size: int) -> Tensor:
        return 2 * torch.randn(*size, generator=generator, dtype=torch.float64)

    allowed = torch.cat([torch.ones(N, N).triu(1), torch.ones(N, P)], 1).bool()
    left, right = (logits(N, N + P).masked_fill(~allowed, -math.inf).softmax(-1) for _ in range(2))
    return SimpleGrammar(logits(N).softmax(-1), left, right, DenseEmissions(logits(P, V).log_softmax(-1)))


@cache
def sequences_of(one: SimpleGrammar, symbol: int) -> Sequences:
    """Enumerate what a symbol derives; preterminals are the symbols from N on."""
    if symbol >= N:
        return {(symbol - N,): 1.0}
    sums: Sequences = {}
    for a, b in product(range(N + P), repeat=2):
        weight = float(one.left[symbol, a] * one.right[symbol, b])
        if weight:
            for x, p in sequences_of(one, a).items():
                for y, q in sequences_of(one, b).items():
                    sums[x + y] = sums.get(x + y, 0.0) + weight * p * q
    return sums


def histories(one: SimpleGrammar, words: Sequence[int]) -> dict[tuple[int, ...], float]:
    """P(preterminals of all words and of the one after them | words), by enumeration of whole sentences."""
    emit = one.emissions.of_words(0, V).exp().tolist()  # [V, P]
    joint: dict[tuple[int, ...], float] = {}
    total = 0.0
    for symbol in range(N):
        for tags, p in sequences_of(one, symbol).items():
            if len(tags) < len(words):
                continue
            weight = p * float(one.root[symbol])
            for word, tag in zip(words, tags, strict=False):
                weight *= emit[word][tag]
            total += weight
            if len(tags) > len(words):
                begun = tags[: len(words) + 1]
                joint[begun] = joint.get(begun, 0.0) + weight
    return {tags: weight / total for tags, weight in joint.items()}


def divergence_and_choice(one: SimpleGrammar, words: Sequence[int], last_only: bool) -> tuple[float, float]:
    """KL over preterminals of the last word, or of all words, and the expected -log P(last word | preterminal)."""
    emit = one.emissions.of_words(0, V).exp().tolist()  # [V, P]
    prior: dict[tuple[int, ...], float] = {}
    for tags, p in histories(one, words[:-1]).items():
        kept = tags[-1:] if last_only else tags
        prior[kept] = prior.get(kept, 0.0) + p
    posterior = {tags: p * emit[words[-1]][tags[-1]] for tags, p in prior.items()}
    total = math.fsum(posterior.values())
    posterior = {tags: p / total for tags, p in posterior.items()}
    kl = math.fsum(p * math.log(p / prior[tags]) for tags, p in posterior.items() if p)
    choice = -math.fsum(p * math.log(emit[words[-1]][tags[-1]]) for tags, p in posterior.items() if p)
    return kl, choice


@pytest.mark.parametrize("last_only", [True, False])
def test_parts_by_enumeration(last_only: bool) -> None:
    """Over the preterminal of the word, or over those of all words so far: the divergence is the same."""
    one = finite_grammar()
    words = [2, 4, 1, 3]
    parts = one.surprisal_parts(torch.tensor([words]))
    for place in range(len(words)):
        kl, choice = divergence_and_choice(one, words[: place + 1], last_only)
        assert parts.syntactic[0, place].item() == pytest.approx(kl, abs=1e-11)
        assert parts.lexical[0, place].item() == pytest.approx(choice, abs=1e-11)


@pytest.mark.parametrize("chunk", [1, 1 << 26])
@pytest.mark.parametrize("emissions", ["dense", "batched", "factored"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parts_add_up_and_are_not_negative(
    emissions: str, dtype: torch.dtype, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix, "PREFIX_BYTES", chunk)
    one = grammar(emissions, dtype)
    syntactic, lexical = one.surprisal_parts(WORDS, LENGTHS)
    assert (syntactic >= 0).all()
    assert (lexical >= 0).all()
    torch.testing.assert_close(syntactic + lexical, one.surprisal(WORDS, LENGTHS), rtol=0, atol=1e-12)
    assert not syntactic[1, 2:].any()
    assert not lexical[1, 2:].any()


def test_copies_of_preterminals_change_nothing() -> None:
    """Preterminals are split into three equal copies, with unequal shares of the rules."""
    one = grammar()
    assert isinstance(one.emissions, DenseEmissions)
    n = one.nonterminals
    shares = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)

    def split(rules: Tensor) -> Tensor:
        return torch.cat([rules[:, :n], (rules[:, n:, None] * shares).flatten(1)], 1)

    emissions = DenseEmissions(one.emissions.log_emit.repeat_interleave(3, 0))
    copied = SimpleGrammar(one.root, split(one.left), split(one.right), emissions)
    torch.testing.assert_close(copied.surprisal_parts(WORDS, LENGTHS), one.surprisal_parts(WORDS, LENGTHS))


def test_each_part_alone() -> None:
    """Surprisal is lexical where all preterminals emit alike, and syntactic where each has a word of its own."""
    one = grammar()
    alike = DenseEmissions(torch.full((7, 9), 1 / 9, dtype=torch.float64).log())
    parts = SimpleGrammar(one.root, one.left, one.right, alike).surprisal_parts(WORDS, LENGTHS)
    inside = torch.arange(6) < LENGTHS[:, None]
    torch.testing.assert_close(parts.lexical[inside], torch.full((13,), math.log(9), dtype=torch.float64))
    own = DenseEmissions(torch.eye(7, 9, dtype=torch.float64).log())
    distinct = SimpleGrammar(one.root, one.left, one.right, own)
    parts = distinct.surprisal_parts(WORDS, LENGTHS)
    assert not parts.lexical.any()
    torch.testing.assert_close(parts.syntactic, distinct.surprisal(WORDS, LENGTHS))


def test_impossible_word_is_infinite_in_both_parts() -> None:
    case = random_case(1, 2, 3, 4)
    table = torch.zeros(4, 3, dtype=torch.float64).log_softmax(-1)
    table[:, 2] = -math.inf
    root, left, right = (tensor.detach().double() for tensor in case.tensors()[1:])
    one = SimpleGrammar(root, left, right, DenseEmissions(table))
    for part in one.surprisal_parts(torch.tensor([[1, 2]])):
        assert part[0, 0].isfinite()
        assert part[0, 1] == math.inf


def test_states_of_a_hidden_markov_model() -> None:
    generator = torch.Generator().manual_seed(0)
    start, steps, emit = (
        torch.randn(*size, generator=generator, dtype=torch.float64).softmax(-1) for size in ((4,), (4, 4), (4, 9))
    )
    one = HiddenMarkovModel(start, steps, DenseEmissions(emit.log()))
    syntactic, lexical = one.surprisal_parts(WORDS, LENGTHS)
    prior = start
    for place, word in enumerate(WORDS[0].tolist()):
        posterior = prior * emit[:, word] / (prior @ emit[:, word])
        torch.testing.assert_close(syntactic[0, place], (posterior * (posterior / prior).log()).sum())
        torch.testing.assert_close(lexical[0, place], -(posterior * emit[:, word].log()).sum())
        prior = posterior @ steps
