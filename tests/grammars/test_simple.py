"""The grammar's questions: the common contract, both kinds of emissions, and differentiable marginals."""

import pytest
import torch

from contract import check_grammar
from random_grammars import random_case
from simplepcfg.errors import InputError
from simplepcfg.grammars import (
    BatchEmissions,
    DenseEmissions,
    Emissions,
    FactoredEmissions,
    SimpleGrammar,
)
from simplepcfg.grammars import emissions as emissions_module
from simplepcfg.grammars.emissions import tabulated
from simplepcfg.ops.inside import span_marginals

WORDS = torch.tensor([[1, 2, 3, 4, 5, 1], [6, 5, 0, 0, 0, 0], [3, 3, 3, 1, 0, 0], [2, 0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 2, 4, 1])


def grammar(batched: bool = False, dtype: torch.dtype = torch.float32) -> SimpleGrammar:
    case = random_case(4, 6, 5, 7, scale=2.0, batched=batched, dtype=dtype)
    generator = torch.Generator().manual_seed(1)
    lead = (4,) if batched else ()
    log_emit = torch.randn(*lead, 7, 9, generator=generator, dtype=dtype).log_softmax(-1)
    return SimpleGrammar(case.root, case.left, case.right, DenseEmissions(log_emit))


def test_contract() -> None:
    check_grammar(grammar(), WORDS, LENGTHS)


def test_rules_of_each_sentence() -> None:
    whole = grammar(batched=True)
    log_z = whole.log_partition(WORDS, LENGTHS)
    assert isinstance(whole.emissions, DenseEmissions)
    for b, length in enumerate(LENGTHS.tolist()):
        emissions = DenseEmissions(whole.emissions.log_emit[b])
        one = SimpleGrammar(whole.root[b], whole.left[b], whole.right[b], emissions)
        torch.testing.assert_close(one.log_partition(WORDS[b : b + 1, :length])[0], log_z[b])


def test_factored_emissions_are_the_table_they_factor() -> None:
    generator = torch.Generator().manual_seed(0)
    features, embeddings = (torch.randn(*size, generator=generator) for size in ((7, 3), (8, 3)))
    factored = FactoredEmissions.normalised(features, embeddings)
    table = (features @ embeddings.T).log_softmax(-1)  # column w - 1 is word w
    torch.testing.assert_close(factored.log_probabilities(WORDS[:1]), table.T[WORDS[:1] - 1])


def test_emissions_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emissions_module, "TABLE_WORDS", 3)
    factored = FactoredEmissions.normalised(torch.randn(5, 3), torch.randn(7, 3))
    table = tabulated(factored, 4 * 5 * 8)
    assert isinstance(table, DenseEmissions)
    torch.testing.assert_close(table.of_words(0, 8), factored.of_words(0, 8))
    assert tabulated(factored, 4 * 5 * 8 - 1) is factored
    assert tabulated(table, 1 << 20) is table
    batched = FactoredEmissions.normalised(torch.randn(2, 5, 3), torch.randn(7, 3))
    assert tabulated(batched, 1 << 20) is batched


def test_a_detached_grammar_says_the_same_without_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    features, embeddings = (torch.randn(*size, generator=generator).requires_grad_() for size in ((7, 3), (8, 3)))
    dense = grammar()
    factored = FactoredEmissions.normalised(features, embeddings)
    for emissions in (dense.emissions, factored, BatchEmissions(features, embeddings)):
        one = SimpleGrammar(dense.root, dense.left, dense.right, emissions)
        expected, found = one.log_partition(WORDS, LENGTHS), one.detached().log_partition(WORDS, LENGTHS)
        assert expected.requires_grad
        assert not found.requires_grad
        torch.testing.assert_close(found, expected.detach())


def rows_of(kind: str) -> Emissions:
    generator = torch.Generator().manual_seed(0)
    features, embeddings = (torch.randn(*size, generator=generator) for size in ((7, 3), (8, 3)))
    if kind == "factored":
        return FactoredEmissions.normalised(features, embeddings)
    if kind == "batch":
        return BatchEmissions(features, embeddings)
    return FactoredEmissions.normalised(features.expand(2, -1, -1), embeddings)


@pytest.mark.parametrize("kind", ["factored", "batch", "sentence"])
@pytest.mark.parametrize(("wrong", "said"), [(0, "is padding"), (-7, "is no word"), (9, "is no word")])
def test_what_is_no_word_inside_a_sentence_is_refused(kind: str, wrong: int, said: str) -> None:
    rules = grammar()
    one = SimpleGrammar(rules.root, rules.left, rules.right, rows_of(kind))
    words = torch.tensor([[5, 6, 1, 8], [5, 6, wrong, 1]])
    message = rf"words\[1, 2\] = {wrong} {said}, inside a sentence of \d words; ids are 1 to 8"
    for question in ("log_partition", "span_marginals", "decode", "viterbi", "tag_marginals", "rule_counts", "entropy"):
        with pytest.raises(InputError, match=message):
            getattr(one, question)(words)
    for lengths in (None, torch.tensor([2, 3])):
        for question in ("log_partition", "surprisal", "next_word_log_probabilities"):
            if kind != "sentence" or question == "log_partition":
                with pytest.raises(InputError, match=message):
                    getattr(one, question)(words, lengths)
    if wrong < 9:  # beyond a sentence's length nobody looks
        beyond = one.log_partition(words, torch.tensor([4, 2]))
        torch.testing.assert_close(beyond, one.log_partition(words.clamp(min=1), torch.tensor([4, 2])))


def test_a_table_may_have_a_word_0_but_none_below() -> None:
    assert bool(grammar().log_partition(torch.tensor([[0, 1, 8]])).isfinite())
    for wrong in (-1, 9):
        with pytest.raises(InputError, match=rf"words\[0, 1\] = {wrong} is no word.*ids are 0 to 8"):
            grammar().log_partition(torch.tensor([[0, wrong, 8]]))


def test_span_marginals_can_be_differentiated() -> None:
    one = grammar(dtype=torch.float64)
    marginals = one.span_marginals(WORDS[:1], LENGTHS[:1])
    assert marginals.requires_grad
    (by_left,) = torch.autograd.grad(marginals[0, 1, 4], one.left)
    step = 1e-6
    direction = torch.randn(one.left.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    emissions = one.emissions.log_probabilities(WORDS[:1])
    ahead, behind = (
        span_marginals(emissions, one.root, one.left.detach() + sign * step * direction, one.right)[1][0, 1, 4]
        for sign in (1, -1)
    )
    torch.testing.assert_close((by_left * direction).sum(), (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8)


def test_best_and_random_trees_of_a_grammar() -> None:
    """One tree of all is at most as probable as all of them, and every list agrees with its siblings."""
    rules = grammar()
    with torch.no_grad():
        log_z = rules.log_partition(WORDS, LENGTHS)
        best = rules.viterbi(WORDS, LENGTHS)
        many = rules.k_best(WORDS, LENGTHS, k=4)
        drawn = rules.sample_trees(WORDS, LENGTHS, samples=3, generator=torch.Generator().manual_seed(0))
    assert (best.log_probability <= log_z + 1e-5).all()
    assert (drawn.log_probability <= best.log_probability[:, None] + 1e-5).all()
    for b, (tree, others) in enumerate(zip(best.to_list(), many, strict=True)):
        assert len(tree.spans) == LENGTHS[b] - 1
        if LENGTHS[b] == 1:
            assert others == []
            continue
        assert (tree.spans, tree.labels, tree.tags) == (others[0].spans, others[0].labels, others[0].tags)
    bonus = torch.zeros(4, 7, 7)
    bonus[:, 0, 2] = -torch.inf
    for tree in rules.viterbi(WORDS, LENGTHS, span_bonus=bonus).to_list():
        assert (0, 2) not in tree.spans
    chosen = rules.sample(5, max_length=6, generator=torch.Generator().manual_seed(0))
    assert chosen.words.shape == (5, 6)
    with torch.no_grad():
        total = rules.log_partition(chosen.words, chosen.lengths)
    assert (chosen.trees.log_probability <= total + 1e-4).all()
