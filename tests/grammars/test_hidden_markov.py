"""A hidden Markov model as a grammar: what it answers, against enumeration, and what it refuses."""

import itertools
import math

import pytest
import torch

from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, FactoredEmissions, HiddenMarkovModel

STATES, WORDS, END = 3, 5, 4  # ids 1 … 4, of which 4 ends a sentence


def grammar(kind: str = "dense", seed: int = 0) -> HiddenMarkovModel:
    generator = torch.Generator().manual_seed(seed)

    def rows(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).softmax(-1)

    transitions = rows(STATES, STATES) if kind == "dense" else (rows(STATES, 2), rows(2, STATES))
    log_emit = torch.randn(STATES, WORDS, generator=generator, dtype=torch.float64)
    log_emit[:, 0] = -math.inf
    return HiddenMarkovModel(rows(STATES), transitions, DenseEmissions(log_emit.log_softmax(-1)))


def whole(model: HiddenMarkovModel) -> torch.Tensor:
    return model.factors[0] if len(model.factors) == 1 else model.factors[0] @ model.factors[1]


@pytest.mark.parametrize("kind", ["dense", "factored"])
def test_the_batch_does_not_matter(kind: str) -> None:
    model = grammar(kind)
    words, lengths = torch.tensor([[1, 2, 3, 4], [2, 4, 0, 0], [4, 0, 0, 0]]), torch.tensor([4, 2, 1])
    found = model.log_partition(words, lengths)
    tags = model.tag_marginals(words, lengths)
    surprisal = model.surprisal(words, lengths)
    for b, n in enumerate(lengths.tolist()):
        alone = words[b : b + 1, :n]
        torch.testing.assert_close(model.log_partition(alone)[0], found[b])
        torch.testing.assert_close(model.tag_marginals(alone)[0], tags[b, :n])
        torch.testing.assert_close(tags[b, :n].sum(-1), torch.ones(n, dtype=torch.float64))
        torch.testing.assert_close(surprisal[b].sum(), -found[b])


@pytest.mark.parametrize("kind", ["dense", "factored"])
def test_next_words(kind: str) -> None:
    """P(next word) is a quotient of two probabilities of texts; the end is a word, so it has none of its own."""
    model = grammar(kind)
    words, lengths = torch.tensor([[1, 2, 3], [2, 0, 0], [0, 0, 0]]), torch.tensor([3, 1, 0])
    found = model.next_word_log_probabilities(words, lengths)
    assert found.shape == (3, WORDS + 1)
    assert found[:, -1].tolist() == [-math.inf] * 3
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(3, dtype=torch.float64))
    for b, n in enumerate(lengths.tolist()):
        before = model.log_partition(words[b : b + 1, :n])[0] if n else 0.0
        for word in range(1, WORDS):
            text = torch.tensor([[*words[b, :n].tolist(), word]])
            torch.testing.assert_close(found[b, word], model.log_partition(text)[0] - before)
    growing = model.growing_prefix()
    entropy = model.next_word_entropy(words[:1])
    for m, word in enumerate(words[0].tolist()):
        expected = torch.special.entr(model.next_word_log_probabilities(words[:1, :m]).exp()).sum()
        torch.testing.assert_close(entropy[0, m], expected)
        growing.push(model.emissions.log_probabilities(torch.tensor([[word]]))[:, 0])
    assert float(entropy[0, -1]) == 0
    torch.testing.assert_close(growing.log_prefix[0], model.log_partition(words[:1])[0])
    torch.testing.assert_close(growing.next_tags()[0].sum(), torch.tensor(1.0, dtype=torch.float64))
    assert float(growing.log_end()) == -math.inf


@pytest.mark.parametrize("kind", ["dense", "factored"])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_samples_follow_the_distribution_given_their_length(kind: str, temperature: float) -> None:
    model, longest, count = grammar(kind), 3, 40_000
    drawn = model.sample(
        count, max_length=longest, generator=torch.Generator().manual_seed(1), temperature=temperature, end=END
    )
    start, *factors = ((rules.log() / temperature).softmax(-1) for rules in (model.start, *model.factors))
    emit = (model.emissions.log_emit / temperature).softmax(-1)
    cooled = HiddenMarkovModel(start, factors[0] if len(factors) == 1 else tuple(factors), DenseEmissions(emit.log()))
    expected = {
        (*text, END): float(cooled.log_partition(torch.tensor([[*text, END]])).exp())
        for n in range(longest)
        for text in itertools.product(range(1, END), repeat=n)
    }
    kept = sum(expected.values())
    assert math.exp(drawn.log_kept) == pytest.approx(kept)
    found: dict[tuple[int, ...], int] = {}
    for words, length in zip(drawn.words.tolist(), drawn.lengths.tolist(), strict=True):
        assert not any(words[length:])
        found[tuple(words[:length])] = found.get(tuple(words[:length]), 0) + 1
    assert set(found) <= set(expected)
    for text, share in expected.items():
        deviation = math.sqrt(share / kept * (1 - share / kept) / count)
        assert abs(found.get(text, 0) / count - share / kept) <= 5 * deviation + 1e-9, text
    for row in range(20):
        states, words = drawn.states[row], drawn.words[row]
        n = int(drawn.lengths[row])
        total = model.start[states[0]].log() + model.emissions.log_emit[states[0], words[0]]
        for t in range(1, n):
            total += whole(model)[states[t - 1], states[t]].log() + model.emissions.log_emit[states[t], words[t]]
        torch.testing.assert_close(drawn.log_probabilities[row], total)
        assert (states[n:] == -1).all()


def test_without_an_end_every_text_has_all_words() -> None:
    drawn = grammar().sample(5, max_length=7, generator=torch.Generator().manual_seed(0))
    assert drawn.lengths.tolist() == [7] * 5
    assert bool((drawn.words > 0).all())
    assert drawn.log_kept == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": 0}, "count = 0"),
        ({"max_length": 0}, "max_length = 0"),
        ({"temperature": 0.0}, "temperature = 0.0"),
        ({"end": 9}, "end = 9; give the id of a word, 1 to 4"),
    ],
)
def test_sampling_names_what_is_off(given: dict[str, float], message: str) -> None:
    settings = {"count": 2, "max_length": 3, "generator": torch.Generator(), **given}
    with pytest.raises(InputError, match=message):
        grammar().sample(settings.pop("count"), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", [1e-39, 1e-320])
def test_the_coldest_temperatures_take_the_likeliest(temperature: float) -> None:
    model = grammar()
    drawn = model.sample(5, max_length=4, generator=torch.Generator().manual_seed(0), temperature=temperature)
    state, expected = int(model.start.argmax()), []
    for _ in range(4):
        expected.append(state)
        state = int(model.factors[0][state].argmax())
    assert drawn.states.tolist() == [expected] * 5
    assert torch.equal(drawn.words, model.emissions.of_preterminals(torch.arange(3)).argmax(-1)[drawn.states])


def test_a_model_that_never_ends_is_named() -> None:
    model = grammar()
    model.emissions.log_emit[:, END] = -math.inf
    with pytest.raises(InputError, match="no sentence of this model ends within max_length = 3"):
        model.sample(1, max_length=3, generator=torch.Generator(), end=END)


@pytest.mark.parametrize("kind", ["dense", "factored"])
def test_surprisals_sum_to_log_p(kind: str) -> None:
    model = grammar(kind)
    words, lengths = torch.tensor([[1, 2, 3, 4], [2, 4, 0, 0]]), torch.tensor([4, 2])
    model.start.requires_grad_()
    surprisal = model.surprisal(words, lengths)
    assert not surprisal.requires_grad
    torch.testing.assert_close(surprisal.sum(1), -model.log_partition(words, lengths).detach())


def test_constraints_are_refused() -> None:
    with pytest.raises(InputError, match="span_bonus: a chain of states has no spans to constrain"):
        grammar().log_partition(torch.tensor([[1, 2]]), span_bonus=torch.zeros(1, 3, 3))


def test_next_words_after_sentences_of_different_lengths() -> None:
    """Padding beyond a sentence is looked at by nobody, whatever the emissions make of the id 0."""
    model = grammar()
    features, embeddings = (torch.randn(*size, generator=torch.Generator().manual_seed(1)) for size in ((3, 2), (4, 2)))
    factored = FactoredEmissions.normalised(features.double(), embeddings.double())
    model = HiddenMarkovModel(model.start, model.transitions, factored)
    words, lengths = torch.tensor([[1, 2, 3], [2, 0, 0]]), torch.tensor([3, 1])
    found = model.next_word_log_probabilities(words, lengths)
    for b, n in enumerate(lengths.tolist()):
        torch.testing.assert_close(found[b], model.next_word_log_probabilities(words[b : b + 1, :n])[0])
