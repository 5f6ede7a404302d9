"""What is not a probability or not a length is refused in one line, before it becomes NaN."""

import math
from collections.abc import Callable

import pytest
import torch

from random_grammars import random_case, rules_and_sentences
from simplepcfg.errors import InputError
from simplepcfg.ops.dense import dense_inside
from simplepcfg.ops.forward import forward, forward_prefixes
from simplepcfg.ops.inside import inside, span_marginals
from simplepcfg.ops.mbr import best_trees
from simplepcfg.ops.prefix import prefix_log_probabilities, prefix_states
from simplepcfg.ops.viterbi.k_best import k_best

B, N_WORDS, N, P = 2, 5, 3, 4


def simple() -> list[torch.Tensor]:
    torch.manual_seed(0)
    rules = [torch.rand(N).softmax(0), torch.randn(N, N + P).softmax(-1), torch.randn(N, N + P).softmax(-1)]
    return [torch.randn(B, N_WORDS, P).log_softmax(-1), *rules]


@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("backend", ["naive", "torch"])
def test_log_probabilities_as_rules(place: int, backend: str) -> None:
    given = simple()
    given[place] = given[place].log()
    with pytest.raises(InputError, match=r"^(root|left|right) holds -.*give (root|left|right)\.exp\(\)"):
        inside(*given, backend=backend)


def test_log_probabilities_of_other_families() -> None:
    emissions, root, _, _ = simple()
    rules = torch.randn(N, (N + P) ** 2).softmax(-1).view(N, N + P, N + P)
    with pytest.raises(InputError, match=r"rules holds -"):
        dense_inside(emissions, root, rules.log())
    with pytest.raises(InputError, match=r"transitions holds -"):
        forward(emissions, torch.ones(P) / P, torch.randn(P, P).log_softmax(-1))


def test_rules_that_are_nan_are_counted_by_training_and_not_refused() -> None:
    given = simple()
    given[2] = torch.full_like(given[2], torch.nan)
    assert inside(*given).shape == (B,)


def test_lengths_as_a_list() -> None:
    given = simple()
    assert torch.equal(inside(*given, lengths=[5, 4]), inside(*given, lengths=torch.tensor([5, 4])))


@pytest.mark.parametrize(
    "lengths", [[5, 4.5], ["5", "4"], [None, 4], 5, torch.tensor([5.0, 4.0]), [10**30, 2], torch.tensor([True, True])]
)
def test_bad_lengths(lengths) -> None:
    with pytest.raises(InputError, match="lengths"):
        inside(*simple(), lengths=lengths)


def test_lengths_of_prefixes_as_a_list() -> None:
    given = simple()
    found = prefix_log_probabilities(*rules_and_sentences(*given, lengths=[5, 0]))
    assert torch.equal(found, prefix_log_probabilities(*rules_and_sentences(*given, lengths=torch.tensor([5, 0]))))
    states = (prefix_states(*rules_and_sentences(*given, lengths=each)) for each in ([5, 3], torch.tensor([5, 3])))
    assert torch.equal(*(each.next_tags(slice(None)) for each in states))


@pytest.mark.parametrize("lengths", [[5, 4.5], 5, [5], [5, 6], [-1, 5], torch.tensor([5.0, 4.0])])
def test_bad_lengths_of_prefixes(lengths) -> None:
    with pytest.raises(InputError, match="lengths"):
        prefix_log_probabilities(*rules_and_sentences(*simple(), lengths=lengths))
    with pytest.raises(InputError, match="lengths"):
        forward_prefixes(simple()[0], torch.ones(P) / P, torch.ones(P, P) / P, lengths=lengths)
    with pytest.raises(InputError, match="lengths"):
        best_trees(torch.zeros(B, N_WORDS + 1, N_WORDS + 1), lengths)


def test_unknown_backend_of_k_best() -> None:
    with pytest.raises(InputError, match="backend 'tritn' is unknown"):
        k_best(*rules_and_sentences(*simple()), 2, backend="tritn")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backend": "cuda"}, "backend 'cuda' is unknown"),
        ({"precision": "fp8"}, "precision 'fp8' is unknown"),
        ({"lengths": torch.tensor([3, 5])}, "lengths[1] = 5 exceeds n = 4"),
        ({"lengths": torch.tensor([3, 0])}, "lengths[1] = 0"),
        ({"lengths": torch.tensor([3])}, "lengths has shape [1]"),
        ({"span_bonus": torch.zeros(2, 4, 4)}, "span_bonus has shape [2, 4, 4]"),
        ({"span_bonus": torch.full((2, 5, 5), math.inf)}, "span_bonus[0, 0, 0] = inf; give a finite log-weight"),
        ({"span_bonus": torch.full((2, 5, 5), math.nan)}, "span_bonus[0, 0, 0] = nan; give a finite log-weight"),
        ({"left": torch.zeros(3, 6)}, "left has shape [3, 6]"),
        ({"root": torch.zeros(5, 3)}, "root has shape [5, 3]"),
        ({"log_emissions": torch.zeros(2, 4)}, "log_emissions has shape [2, 4]"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, object], message: str) -> None:
    case = random_case(2, 4, 3, 4)
    arguments: dict[str, object] = dict(zip(("log_emissions", "root", "left", "right"), case.tensors(), strict=True))
    with pytest.raises(InputError) as caught:
        inside(**{**arguments, **change})  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("question", [inside, span_marginals])
def test_what_is_no_log_emission_is_refused(question: Callable[..., object]) -> None:
    logs, root, left, right = (tensor.detach() for tensor in random_case(2, 4, 3, 5).tensors())
    with pytest.raises(InputError, match=r"log_emissions holds .* probabilities; give log_emissions.log\(\)"):
        question(logs.softmax(-1), root, left, right)
    with pytest.raises(InputError, match=r"log_emissions has dtype torch.int64; it must be a floating-point tensor"):
        question(logs.long(), root, left, right)
    for place, name in enumerate(("log_emissions", "root", "left", "right")):
        given: list[object] = [logs, root, left, right]
        given[place] = given[place].numpy()  # type: ignore[attr-defined]
        with pytest.raises(InputError, match=rf"^{name} is a ndarray; give a tensor, torch.as_tensor\({name}\)$"):
            question(*given)
    question(logs * 0, root, left, right)  # words of probability 1
    question(logs.abs() + 2, root, left, right)  # log-weights
