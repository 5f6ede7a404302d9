"""Viterbi trees over the nodes whose bounds reach a threshold: the bounds hold, and pruning changes no tree."""

import math

import numpy as np
import pytest
import torch

from naive_viterbi import naive_viterbi
from random_grammars import random_case, rules_and_sentences, with_dead_states, with_zeros
from simplepcfg.ops.arguments import check_arguments
from simplepcfg.ops.viterbi import pruned, viterbi
from simplepcfg.ops.viterbi.bounds import POWER, BoundChart
from simplepcfg.ops.viterbi.chart import ViterbiChart
from simplepcfg.ops.viterbi.k_best import k_best
from simplepcfg.ops.viterbi.pruned import pruned_best_trees

CASES = [
    random_case(3, 9, 33, 65, scale=2.0),
    random_case(3, 8, 63, 30, scale=8.0, batched=True, seed=1),
    random_case(3, 12, 32, 64, scale=30.0, seed=2),
    random_case(3, 12, 32, 64, scale=30.0, seed=3, dtype=torch.float32),
    with_zeros(random_case(3, 7, 20, 31, scale=3.0, seed=4), seed=1),
    with_dead_states(random_case(3, 7, 20, 31, scale=3.0, seed=5)),
]


def some_bonus(n: int) -> torch.Tensor:
    bonus = 3 * torch.randn(3, n + 1, n + 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    bonus[1, 0, 2] = -math.inf
    return bonus


@pytest.mark.parametrize("with_bonus", [False, True])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_same_trees_as_the_whole_chart(number: int, with_bonus: bool) -> None:
    case = CASES[number]
    n = case.log_emissions.shape[1]
    given = {"lengths": torch.tensor([n, 1, n - 2]), "span_bonus": some_bonus(n) if with_bonus else None}
    whole = naive_viterbi(*rules_and_sentences(*case.tensors(), **given))
    ours = viterbi(*rules_and_sentences(*case.tensors(), **given), backend="pruned")
    torch.testing.assert_close(ours.log_probability, whole.log_probability)
    for field in ("spans", "splits", "labels", "tags"):
        assert torch.equal(getattr(ours, field), getattr(whole, field))
    several = [k_best(*rules_and_sentences(*case.tensors(), **given), 20, backend=name) for name in ("torch", "pruned")]
    for one, other in zip(*several, strict=True):
        assert [tree.log_probability for tree in one] == pytest.approx([tree.log_probability for tree in other])


@pytest.mark.parametrize("number", range(len(CASES)))
def test_no_value_is_above_its_bound(number: int) -> None:
    case = CASES[number]
    tensors = [tensor.detach().double() for tensor in case.tensors()]
    arguments = check_arguments(*rules_and_sentences(*tensors, span_bonus=some_bonus(tensors[0].shape[1])))
    exact, chart = ViterbiChart(arguments), BoundChart(arguments)
    best, bounds = exact.fill(), chart.fill()
    assert (bounds / POWER + chart.log_best >= best - 1e-6).all()
    words = arguments.log_emissions.amax(-1)  # to which bounds are relative
    for width in range(2, chart.n + 1):
        for b in range(chart.batch):
            for i in range(chart.n - width + 1):
                row = exact.rows_of(torch.tensor(b), torch.tensor(i), torch.tensor(width))
                (values,), exponents = chart.inside(width, np.array([b]), np.array([i]))
                bound = torch.from_numpy(values).double().log2().add_(float(exponents[0])) * (math.log(2) / POWER)
                assert (bound + words[b, i : i + width].sum() >= exact.best[row] - 1e-5).all()


def test_pruning_is_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(3, 9, 150, 150, scale=4.0)
    arguments = check_arguments(
        *rules_and_sentences(*(tensor.detach() for tensor in case.tensors()), lengths=torch.tensor([9, 2, 7]))
    )
    assert all(tree is not None for tree in pruned_best_trees(arguments))
    monkeypatch.setattr("simplepcfg.ops.viterbi.chart.ViterbiChart.fill", None)  # "auto" does not call it
    expected = naive_viterbi(*rules_and_sentences(*case.tensors(), lengths=arguments.lengths))
    assert torch.equal(
        viterbi(*rules_and_sentences(*case.tensors(), lengths=arguments.lengths)).labels, expected.labels
    )


@pytest.mark.parametrize(("name", "value"), [("MOST_NUMBERS", 100), ("ROUNDS", 1), ("GUESS", 1e-9), ("GUESS", 5.0)])
def test_any_limit_gives_the_same_trees(name: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[0]
    expected = naive_viterbi(*rules_and_sentences(*case.tensors()))
    monkeypatch.setattr(pruned, name, value)
    ours = viterbi(*rules_and_sentences(*case.tensors()), backend="pruned")
    assert torch.equal(ours.labels, expected.labels)
    assert torch.equal(ours.tags, expected.tags)
