"""An ordinary PCFG's questions: the contract, agreement with simple grammars, trees, counts, and what it refuses."""

import math

import pytest
import torch
from torch import Tensor

from contract import check_grammar
from dense_oracle import dense_derivations, random_dense_case
from finite_differences import check_derivatives
from random_grammars import random_case
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, DenseGrammar, SimpleGrammar

WORDS = torch.tensor([[1, 2, 3, 4, 5, 1], [6, 5, 0, 0, 0, 0], [3, 3, 3, 1, 0, 0], [2, 0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([6, 2, 4, 1])


def table(preterminals: int, batch: int | None = None, dtype: torch.dtype = torch.float64) -> DenseEmissions:
    lead = () if batch is None else (batch,)
    scores = torch.randn(*lead, preterminals, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return DenseEmissions(scores.mul(2).log_softmax(-1).to(dtype))


def grammar(batched: bool = False, dtype: torch.dtype = torch.float64, states: int = 4, tags: int = 5) -> DenseGrammar:
    case = random_dense_case(4, 6, states, tags, scale=2.0, batched=batched, dtype=dtype)
    return DenseGrammar(case.root, case.rules, table(tags, 4 if batched else None, dtype))


def simple(batched: bool = False) -> SimpleGrammar:
    case = random_case(4, 6, 4, 5, scale=2.0, batched=batched)
    return SimpleGrammar(case.root, case.left, case.right, table(5, 4 if batched else None))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_contract(dtype: torch.dtype) -> None:
    check_grammar(grammar(dtype=dtype), WORDS, LENGTHS)


@pytest.mark.parametrize("batched", [False, True])
def test_an_expanded_simple_grammar_answers_alike(batched: bool) -> None:
    one, other = simple(batched), simple(batched).to_dense()
    given = (WORDS, LENGTHS)
    torch.testing.assert_close(other.log_partition(*given), one.log_partition(*given))
    torch.testing.assert_close(other.span_marginals(*given), one.span_marginals(*given))
    torch.testing.assert_close(other.tag_marginals(*given), one.tag_marginals(*given).detach())
    torch.testing.assert_close(other.symbol_marginals(*given), one.symbol_marginals(*given))
    torch.testing.assert_close(other.entropy(*given), one.entropy(*given))
    assert other.decode(*given) == one.decode(*given)
    mine, theirs = other.rule_counts(*given), one.rule_counts(*given)
    torch.testing.assert_close(mine.root, theirs.root.detach())
    torch.testing.assert_close(mine.rules.sum(-1), theirs.left.detach())
    torch.testing.assert_close(mine.rules.sum(-2), theirs.right.detach())
    torch.testing.assert_close(mine.parents, theirs.parents.detach())
    torch.testing.assert_close(mine.preterminals, theirs.preterminals.detach())
    mine, theirs = other.viterbi(*given), one.viterbi(*given)
    for name in ("spans", "splits", "labels", "tags"):
        assert torch.equal(getattr(mine, name), getattr(theirs, name))
    torch.testing.assert_close(mine.log_probability, theirs.log_probability)


def test_bonuses_in_every_answer() -> None:
    one, other = simple(), simple().to_dense()
    bonus = torch.randn(4, 7, 7, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    bonus[0, 2, 4] = -math.inf
    for name in ("log_partition", "span_marginals", "tag_marginals", "symbol_marginals", "entropy"):
        answers = [getattr(which, name)(WORDS, LENGTHS, span_bonus=bonus).detach() for which in (other, one)]
        torch.testing.assert_close(*answers)
    best = [which.viterbi(WORDS, LENGTHS, span_bonus=bonus) for which in (other, one)]
    assert torch.equal(best[0].spans, best[1].spans)
    torch.testing.assert_close(best[0].log_probability, best[1].log_probability)


@pytest.mark.parametrize("batched", [False, True])
def test_viterbi_against_every_derivation(batched: bool) -> None:
    given = grammar(batched, states=2, tags=3)
    words, lengths = torch.tensor([[1, 5, 3, 8], [2, 4, 6, 0], [7, 7, 0, 0], [3, 0, 0, 0]]), torch.tensor([4, 3, 2, 1])
    trees = given.viterbi(words, lengths)
    emissions = given.emissions.log_probabilities(words)
    for b, tree in enumerate(trees.to_list()[:3]):
        root = given.root[b] if batched else given.root
        rules = given.rules[b] if batched else given.rules
        weight, labels = max(dense_derivations(emissions[b, : lengths[b]], root, rules), key=lambda found: found[0])
        assert tree.log_probability == pytest.approx(weight)
        found = dict(zip(tree.spans, tree.labels, strict=True))
        found |= {(i, i + 1): 2 + tag for i, tag in enumerate(tree.tags)}
        assert found == labels
    assert trees.to_list()[3].tags == []
    assert trees.log_probability[3] == -math.inf
    (slope,) = torch.autograd.grad(trees.log_probability[:3].sum(), given.rules)
    torch.testing.assert_close((slope * given.rules).sum(), torch.tensor(6.0, dtype=torch.float64))


def test_entropy_against_every_derivation() -> None:
    given = grammar(states=2, tags=2)
    words = torch.tensor([[1, 5, 3]])
    weights = torch.tensor(
        [w for w, _ in dense_derivations(given.emissions.log_probabilities(words)[0], given.root, given.rules)],
        dtype=torch.float64,
    ).log_softmax(0)
    torch.testing.assert_close(given.entropy(words)[0], -(weights.exp() * weights).sum())


def test_marginals_and_counts_add_up() -> None:
    given = grammar(dtype=torch.float32)
    possible = LENGTHS > 1
    tags = given.tag_marginals(WORDS, LENGTHS)
    torch.testing.assert_close(tags.sum((1, 2)), torch.where(possible, LENGTHS, 0).float())
    counts = given.rule_counts(WORDS, LENGTHS)
    torch.testing.assert_close(counts.root.sum(), possible.sum().float())
    torch.testing.assert_close(counts.rules.sum(), (LENGTHS - 1).sum().float())
    torch.testing.assert_close(counts.preterminals.sum(), LENGTHS[possible].sum().float())
    chosen = torch.tensor([[0, 1, 4], [2, 0, 2]])
    every = given.symbol_marginals(WORDS, LENGTHS)
    torch.testing.assert_close(given.symbol_marginals(WORDS, LENGTHS, spans=chosen), every[[0, 2], [1, 0], [4, 2]])


def test_marginals_can_be_differentiated() -> None:
    given = grammar()

    def marginals(rules: Tensor) -> Tensor:
        return DenseGrammar(given.root, rules, given.emissions).span_marginals(WORDS[2:3, :3])

    check_derivatives(marginals, [given.rules])


@pytest.mark.parametrize("span", [[0, 0, -1], [0, 0, 9], [7, 0, 2], [0, 1, 2]])
def test_spans_that_are_none_are_refused(span: list[int]) -> None:
    with pytest.raises(InputError, match=r"spans\[1\] = "):
        grammar().symbol_marginals(WORDS, LENGTHS, spans=torch.tensor([[0, 0, 2], span]))
