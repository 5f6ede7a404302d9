"""Entropy of derivations, against enumeration, with their gradients."""

import math

import pytest
import torch
from torch import Tensor

from derivations import answers, sparse
from random_grammars import Case, random_case, rules_and_sentences, with_dead_states
from simplepcfg.ops.entropy import derivation_entropy
from simplepcfg.ops.inside import inside
from simplepcfg.ops.marginals import rule_counts, tag_marginals

LENGTHS = torch.tensor([4, 1, 2, 3])
KINDS = {"plain": lambda case: case, "zeros": sparse, "dead": with_dead_states}


def case_of(kind: str = "plain", seed: int = 3, batched: bool = False) -> Case:
    nonterminals = 3 if kind == "dead" else 2  # two of the three are dead, one way or the other
    return KINDS[kind](random_case(4, 4, nonterminals, 2, scale=2.0, batched=batched, seed=seed))


def constant(case: Case) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Without gradients, so that the fast path answers."""
    return tuple(tensor.detach() for tensor in case.tensors())  # type: ignore[return-value]


def sentence(case: Case, b: int) -> tuple[Tensor, ...]:
    rules = [t[b] if t.dim() > dims else t for t, dims in ((case.root, 1), (case.left, 2), (case.right, 2))]
    return case.log_emissions[b, : int(LENGTHS[b])], *rules


def some_bonus() -> Tensor:
    bonus = torch.randn(4, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bonus[0, 1, 3] = -torch.inf
    return bonus


@pytest.mark.parametrize("how", ["naive", "torch", "triton", "graph"])
@pytest.mark.parametrize(
    ("kind", "batched", "with_bonus"),
    [("plain", False, True), ("zeros", False, False), ("dead", False, False), ("plain", True, True)],
)
def test_entropy_of_derivations(kind: str, batched: bool, with_bonus: bool, how: str) -> None:
    case = case_of(kind, batched=batched)
    bonus = some_bonus() if with_bonus else None
    rules = case.tensors() if how == "graph" else constant(case)
    found = derivation_entropy(
        *rules_and_sentences(*rules, lengths=LENGTHS, span_bonus=bonus), backend="torch" if how == "graph" else how
    )
    assert found.requires_grad == (how == "graph")
    truth = [answers(*sentence(case, b), span_bonus=None if bonus is None else bonus[b]).entropy for b in range(4)]
    torch.testing.assert_close(found.detach(), torch.tensor(truth, dtype=torch.float64))
    assert found[1] == -math.inf  # one word has no derivation


@pytest.mark.parametrize(("scale", "n"), [(1.0, 20), (6.0, 15), (20.0, 10)])
def test_float32_is_as_accurate_as_its_chart(scale: float, n: int) -> None:
    p = random_case(3, n, 33, 65, scale=scale, seed=1)
    lengths = torch.tensor([n, n - 4, 2])
    narrow = constant(p.to(torch.float32))
    # Compared with float64 on the same rounded numbers: the rounding of the rules is not the question's.
    wide = tuple(t.double() for t in narrow)
    size = inside(*wide, lengths=lengths).abs()
    error = (
        derivation_entropy(*rules_and_sentences(*narrow, lengths=lengths))
        - derivation_entropy(*rules_and_sentences(*wide, lengths=lengths))
    ).abs()  # type: ignore[arg-type]
    assert (error <= 1e-5 * size + 1e-6).all()


def test_entropy_is_log_z_less_the_expected_log_weight() -> None:
    """With counts of the whole batch, which is another way to the same sum."""
    case = random_case(3, 7, 5, 9, scale=2.0)
    log_z, counts = rule_counts(*rules_and_sentences(*constant(case)))
    _, tags = tag_marginals(*rules_and_sentences(*constant(case)))
    parts = ((counts.root, case.root), (counts.left, case.left), (counts.right, case.right))
    expected = sum(torch.special.xlogy(1, rule).mul(count).sum() for count, rule in parts)
    expected = expected + (tags * case.log_emissions).sum()
    torch.testing.assert_close(
        derivation_entropy(*rules_and_sentences(*constant(case))).sum(), (log_z.sum() - expected).detach()
    )


def test_uniform_trees_have_the_entropy_of_their_number() -> None:
    rules = (torch.zeros(1, 9, 1).double(), torch.ones(1).double(), *[torch.full((1, 2), 0.5).double()] * 2)
    torch.testing.assert_close(
        derivation_entropy(*rules_and_sentences(*rules))[0].exp(), torch.tensor(1430.0, dtype=torch.float64)
    )


def test_gradients() -> None:
    """Against differences of the fast path, which is another algorithm."""
    p, kept = case_of(), LENGTHS > 1

    def ask(rules: tuple[Tensor, ...]) -> Tensor:
        found = derivation_entropy(*rules_and_sentences(*rules, lengths=LENGTHS))
        return (found[kept] * torch.tensor([1.0, -0.5, 2.0], dtype=torch.float64)).sum()

    slopes = torch.autograd.grad(ask(p.tensors()), p.tensors())
    generator = torch.Generator().manual_seed(5)
    step = 1e-6
    for index, slope in enumerate(slopes):
        direction = torch.randn(slope.shape, generator=generator, dtype=torch.float64)

        def moved(sign: int, index: int = index, direction: Tensor = direction) -> Tensor:
            rules = list(constant(p))
            rules[index] = rules[index] + sign * step * direction
            return ask(tuple(rules))

        difference = (moved(1) - moved(-1)) / (2 * step)
        torch.testing.assert_close((slope * direction).sum(), difference.detach(), rtol=1e-5, atol=1e-8)
