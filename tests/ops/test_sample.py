"""Random trees: the draws of the naive form, frequencies as the enumeration says, lengths as the grammar says."""

import math
from collections import Counter

import pytest
import torch

from derivations import derivations, probabilities
from frequencies import chi_square
from naive_sample import naive_sample_trees
from random_grammars import random_case, rules_and_sentences, with_dead_states, with_zeros
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, FactoredEmissions, SimpleGrammar
from simplepcfg.grammars.sampling import sample_words
from simplepcfg.grammars.sampling import tempered as sharpened_rules
from simplepcfg.ops.arguments import SimpleRules
from simplepcfg.ops.inside import inside
from simplepcfg.ops.sample import sample_derivations, sample_trees
from simplepcfg.ops.sample.lengths import length_table
from simplepcfg.ops.trees import rule_log_probabilities


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("with_bonus", [False, True])
@pytest.mark.parametrize("number", range(4))
def test_the_draws_of_the_naive_form(with_bonus: bool, number: int) -> None:
    plain = random_case(4, 5, 5, 6, scale=3.0, batched=number == 1)
    case = [plain, plain, with_zeros(random_case(4, 5, 6, 6, seed=3)), with_dead_states(plain)][number]
    bonus = torch.randn(4, 6, 6, generator=seeded(2), dtype=torch.float64) if with_bonus else None
    lengths = torch.tensor([5, 1, 3, 2])
    naive, drawn = (
        form(*rules_and_sentences(*case.tensors(), lengths=lengths, span_bonus=bonus), 2, seeded(number))
        for form in (naive_sample_trees, sample_trees)
    )
    assert naive.labels.shape == (4, 2, 4)
    for field in ("spans", "splits", "labels", "tags", "log_probability"):
        assert torch.equal(getattr(naive, field), getattr(drawn, field))
    assert (naive.log_probability[1] == -math.inf).all()
    assert (naive.labels[1] == -1).all()


@pytest.mark.parametrize(("nonterminals", "preterminals"), [(21, 35), (1, 1)])
def test_float32_and_several_blocks(monkeypatch: pytest.MonkeyPatch, nonterminals: int, preterminals: int) -> None:
    monkeypatch.setattr("simplepcfg.ops.sample.top_down.WEIGHTS_AT_ONCE", 300)
    case = random_case(2, 4, nonterminals, preterminals, scale=2.0, dtype=torch.float32)
    found = sample_trees(*rules_and_sentences(*case.tensors()), 3, seeded())
    expected = naive_sample_trees(*rules_and_sentences(*case.to(torch.float64).tensors()), 3, seeded())
    assert torch.equal(found.labels, expected.labels)
    assert torch.equal(found.tags, expected.tags)
    assert found.log_probability.dtype == torch.float32


@pytest.mark.parametrize("with_bonus", [False, True])
def test_frequencies_are_marginals(with_bonus: bool) -> None:
    case = random_case(2, 4, 2, 2, scale=1.5, seed=1)
    bonus = torch.randn(2, 5, 5, generator=seeded(3), dtype=torch.float64) if with_bonus else None
    lengths = torch.tensor([4, 3])
    samples = 6_000
    trees = sample_trees(
        *rules_and_sentences(*case.tensors(), lengths=lengths, span_bonus=bonus), samples, seeded(11)
    ).to_list()
    for b, length in enumerate(lengths.tolist()):
        found = derivations(
            case.log_emissions[b, :length], *case.tensors()[1:], span_bonus=None if bonus is None else bonus[b]
        )
        shares, _ = probabilities(found)
        counts = Counter(
            tuple(
                sorted([*zip(t.spans, t.labels, strict=True), *(((i, i + 1), 2 + tag) for i, tag in enumerate(t.tags))])
            )
            for t in trees[b]
        )
        keys = [tuple(sorted(d.symbols.items())) for d in found]
        assert set(counts) <= set(keys)
        assert abs(chi_square([counts[name] for name in keys], shares)) < 5


def test_log_probabilities_average_to_the_entropy() -> None:
    """E[log p(tree, words)] over samples is Σ p log p + log Z."""
    case = random_case(1, 4, 2, 3)
    trees = sample_trees(*rules_and_sentences(*case.tensors()), 4000, seeded())
    shares, log_z = probabilities(derivations(case.log_emissions[0], *case.tensors()[1:]))
    expected = sum(p * math.log(p) for p in shares if p > 0) + log_z
    scores = trees.log_probability.detach()[0]
    assert float(scores.mean()) == pytest.approx(expected, abs=5 * float(scores.std()) / math.sqrt(4000))


def test_repeats_bit_for_bit_and_differs_by_seed() -> None:
    case = random_case(3, 9, 5, 6, dtype=torch.float32)
    once, repeated, other = (
        sample_trees(*rules_and_sentences(*case.tensors()), 20, seeded(seed)) for seed in (3, 3, 4)
    )
    assert torch.equal(once.labels, repeated.labels)
    assert torch.equal(once.log_probability, repeated.log_probability)
    assert not torch.equal(once.labels, other.labels)


def test_awkward_arguments() -> None:
    case = random_case(2, 1, 3, 4)
    trees = sample_trees(*rules_and_sentences(*case.tensors()), 3, seeded())
    assert trees.log_probability.tolist() == [[-math.inf] * 3] * 2
    with pytest.raises(InputError, match="samples = 0"):
        sample_trees(*rules_and_sentences(*case.tensors()), 0, seeded())
    rules = case.tensors()[1:]
    with pytest.raises(InputError, match="max_length = 1"):
        sample_derivations(SimpleRules(*rules), 3, 1, seeded())
    with pytest.raises(InputError, match="max_length = 100000; 10000 words are the most"):
        sample_derivations(SimpleRules(*rules), 3, 100_000, seeded())
    with pytest.raises(InputError, match="count = 0"):
        sample_derivations(SimpleRules(*rules), 0, 5, seeded())
    with pytest.raises(InputError, match="one grammar at a time"):
        sample_derivations(SimpleRules(*random_case(2, 3, 3, 4, batched=True).tensors()[1:]), 3, 5, seeded())
    endless = torch.cat([torch.eye(3), torch.zeros(3, 4)], 1)
    with pytest.raises(InputError, match="raise max_length"):
        sample_derivations(SimpleRules(torch.ones(3) / 3, endless, endless), 3, 5, seeded())


def test_length_table_sums_the_inside_algorithm() -> None:
    """P(length) is Z of a sentence of which every preterminal says each word surely."""
    case = random_case(1, 8, 4, 5, scale=2.0)
    rules = case.tensors()[1:]
    table = length_table(SimpleRules(*(tensor.detach() for tensor in rules)), 8)
    for length in range(2, 9):
        expected = inside(torch.zeros(1, length, 5, dtype=torch.float64), *rules)
        assert float(table.log_lengths[length]) == pytest.approx(float(expected.detach()))
    assert (table.log_lengths[:2] == -math.inf).all()


def test_long_lengths_of_an_endless_grammar_stay_in_range() -> None:
    """A grammar that almost never ends: 2^-50 a word, and yet every length has its share."""
    rules = torch.tensor([[1 - 2.0**-50, 2.0**-50]], dtype=torch.float32).double()
    found, lengths, log_kept = sample_derivations(
        SimpleRules(torch.ones(1), rules.float(), rules.float()), 200, 60, seeded()
    )
    assert math.isfinite(float(log_kept))
    assert (lengths >= 2).all()
    assert (found[3] >= 0).sum(1).tolist() == lengths.tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_splits_by_length_are_right_in_every_type(dtype: torch.dtype) -> None:
    """With one nonterminal all trees of a length are equally likely: splits go by Catalan numbers, however rare."""
    rules = torch.tensor([[2.0**-12, 1 - 2.0**-12]], dtype=dtype)
    table = length_table(SimpleRules(torch.ones(1, dtype=dtype), rules, rules), 60)
    zero = torch.zeros(1, dtype=torch.int64)
    found = table.split_logs(zero, zero, torch.tensor([60]), zero)[0].softmax(0)
    trees = torch.tensor([math.comb(2 * n, n) / (n + 1) for n in range(59)], dtype=torch.float64)
    expected = trees * trees.flip(0)
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(found, expected / expected.sum(), rtol=2 * rounding, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_derivations_in_lower_precision(dtype: torch.dtype) -> None:
    rules = random_case(1, 3, 5, 6, scale=2.0, dtype=dtype).tensors()[1:]
    (ours, lengths, kept), (theirs, others, _) = (
        sample_derivations(SimpleRules(*(tensor.to(kind) for tensor in rules)), 5, 6, seeded(2))
        for kind in (dtype, torch.float64)
    )
    assert lengths.tolist() == others.tolist()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert 0 < math.exp(float(kept)) <= 1


def grammar(scale: float = 1.0) -> SimpleGrammar:
    case = random_case(1, 3, 3, 3, scale=scale, seed=5)
    log_emit = torch.randn(3, 3, generator=seeded(1), dtype=torch.float64).log_softmax(-1)
    return SimpleGrammar(*(tensor.detach() for tensor in case.tensors()[1:]), DenseEmissions(log_emit))


def tempered(original: SimpleGrammar, temperature: float) -> SimpleGrammar:
    assert isinstance(original.emissions, DenseEmissions)
    rules = [(t.log() / temperature).softmax(-1) for t in (original.root, original.left, original.right)]
    return SimpleGrammar(*rules, DenseEmissions((original.emissions.log_emit / temperature).log_softmax(-1)))


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_sentences_as_often_as_they_are_probable(temperature: float) -> None:
    original = grammar()
    count = 12_000
    drawn = original.sample(count, max_length=3, generator=seeded(7), temperature=temperature)
    counts = Counter(tuple(row) for row in drawn.words.tolist())
    sentences = [(a, b) for a in range(3) for b in range(3)]
    sentences += [(*pair, c) for pair in sentences for c in range(3)]
    words = torch.tensor([[*sentence, 0][:3] for sentence in sentences])
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    log_p = tempered(original, temperature).log_partition(words, lengths)
    assert float(log_p.logsumexp(0)) == pytest.approx(drawn.log_kept)
    shares = (log_p - drawn.log_kept).exp().tolist()
    observed = Counter(zip(drawn.lengths.tolist(), map(tuple, drawn.words.tolist()), strict=True))
    found = [observed[n, tuple(row)] for n, row in zip(lengths.tolist(), words.tolist(), strict=True)]
    assert sum(found) == count == sum(counts.values())
    assert abs(chi_square(found, shares)) < 5


def test_sampled_trees_have_their_probability_under_the_grammar() -> None:
    original = grammar()
    drawn = original.sample(8, max_length=4, generator=seeded(), temperature=0.7)
    for words, length, tree in zip(drawn.words, drawn.lengths.tolist(), drawn.trees.to_list(), strict=True):
        log_emissions = original.emissions.log_probabilities(words[None, :length])[0]
        every = derivations(log_emissions, original.root, original.left, original.right)
        tags = (((i, i + 1), 3 + tag) for i, tag in enumerate(tree.tags))
        name = dict([*zip(tree.spans, tree.labels, strict=True), *tags])
        (weight,) = [d.log_weight for d in every if d.symbols == name]
        assert tree.log_probability == pytest.approx(weight)


def test_temperature_sharpens() -> None:
    original = grammar(2.0)
    cold = original.sample(50, max_length=6, generator=seeded(), temperature=1e-3)
    assert isinstance(original.emissions, DenseEmissions)
    likeliest = original.emissions.log_emit.argmax(1)
    drawn = cold.trees.tags >= 0
    assert torch.equal(cold.words[drawn], likeliest[cold.trees.tags[drawn]])
    assert len({tuple(row) for row in cold.words.tolist()}) < 5
    warm = original.sample(200, max_length=6, generator=seeded(), temperature=1.0)
    cool = original.sample(200, max_length=6, generator=seeded(), temperature=0.5)
    assert len({tuple(row) for row in cool.words.tolist()}) < len({tuple(row) for row in warm.words.tolist()})
    for value in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="temperature = "):
            original.sample(1, max_length=6, generator=seeded(), temperature=value)


@pytest.mark.parametrize("temperature", [1e-30, 1e-39, 1e-320])
def test_the_coldest_temperatures_take_the_likeliest(temperature: float) -> None:
    root = torch.tensor([0.7, 0.3])
    left = torch.tensor([[0.1, 0.2, 0.6, 0.1], [0.0, 0.0, 0.0, 0.0]])  # the second symbol rewrites to nothing
    right = torch.tensor([[0.1, 0.2, 0.2, 0.5], [0.25, 0.25, 0.25, 0.25]])
    log_emit = torch.tensor([[0.0, 0.2, 0.8], [0.0, 0.9, 0.1]]).log()
    cold = SimpleGrammar(root, left, right, DenseEmissions(log_emit))
    drawn = cold.sample(20, max_length=4, generator=seeded(), temperature=temperature)
    assert {tuple(row) for row in drawn.words.tolist()} == {(2, 1, 0, 0)}
    assert drawn.log_kept == pytest.approx(0.0)
    expected = math.log(0.7 * 0.6 * 0.5 * 0.8 * 0.9)
    torch.testing.assert_close(drawn.trees.log_probability, torch.full((20,), expected))


def test_temperature_of_half_precision_rules() -> None:
    """Their logarithms are not rounded to 8 bits before the temperature multiplies the error."""
    rules = torch.tensor([[2.0**-12, 0.375, 0.625]])
    torch.testing.assert_close(
        sharpened_rules(rules.bfloat16(), 0.1).float(), sharpened_rules(rules, 0.1), rtol=2.0**-8, atol=0
    )


def test_scores_of_half_precision_rules_are_not_rounded_to_it() -> None:
    original = grammar()
    rules = [t.bfloat16() for t in (original.root, original.left, original.right)]
    drawn = SimpleGrammar(*rules, original.emissions).sample(9, max_length=20, generator=seeded())
    trees = (drawn.trees.spans, drawn.trees.splits, drawn.trees.labels, drawn.trees.tags)
    expected = rule_log_probabilities(
        SimpleRules(*(t.double() for t in rules)), torch.zeros(9, dtype=torch.int64), trees
    )
    assert isinstance(original.emissions, DenseEmissions)
    words = original.emissions.log_emit[drawn.trees.tags.clamp(min=0), drawn.words]
    expected += torch.where(drawn.trees.tags >= 0, words, 0.0).sum(1)
    torch.testing.assert_close(drawn.trees.log_probability, expected.float(), rtol=1e-6, atol=0)


def test_words_of_factored_emissions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never padding, in pieces as in one, and as the table that they factor."""
    features = torch.randn(5, 4, generator=seeded(), dtype=torch.float64)
    embeddings = torch.randn(6, 4, generator=seeded(1), dtype=torch.float64)
    factored = FactoredEmissions.normalised(features, embeddings)
    table = torch.nn.functional.pad((features @ embeddings.T).log_softmax(-1), (1, 0), value=-torch.inf)
    tags = torch.randint(-1, 5, (3000, 4), generator=seeded(2))
    words, scores = sample_words(factored, tags, 1.0, seeded(3))
    assert torch.equal(words, sample_words(DenseEmissions(table), tags, 1.0, seeded(3))[0])
    assert ((words == 0) == (tags < 0)).all()
    expected = torch.where(tags >= 0, table[tags.clamp(min=0), words], 0.0).sum(1)
    torch.testing.assert_close(scores, expected)
    counts = [int(((words == word) & (tags == 3)).sum()) for word in range(1, 7)]
    assert abs(chi_square(counts, table[3, 1:].exp().tolist())) < 5
    monkeypatch.setattr("simplepcfg.grammars.sampling.EMISSIONS_AT_ONCE", 15)
    assert torch.equal(words, sample_words(factored, tags, 1.0, seeded(3))[0])


def test_a_preterminal_without_words_is_named() -> None:
    log_emit = torch.tensor([[0.0], [-math.inf]])
    with pytest.raises(InputError, match="preterminal 1 emits no word"):
        sample_words(DenseEmissions(log_emit), torch.tensor([[0, 1]]), 1.0, seeded())
