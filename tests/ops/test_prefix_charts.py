"""What prefix probabilities are made of on a CPU: the closure by elimination, charts without what nobody reads."""

import importlib
import math

import pytest
import torch
from torch import Tensor

from prefix_cases import BACKENDS, naive, plain
from random_grammars import random_case, rules_and_sentences
from simplepcfg.errors import NumericalError
from simplepcfg.ops.arguments import SimpleRules
from simplepcfg.ops.prefix import left_corner_closure, prefix_log_probabilities, prefix_states
from simplepcfg.ops.prefix.scaled_rows import distinct_rows

closure = importlib.import_module("simplepcfg.ops.prefix.closure")


def fixed_point(root: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the chains of left children, none of which is subtracted: start and carry."""
    states = root.shape[-1]
    start, carry = root.unsqueeze(-2), right[..., :states]
    starts, carries = start, carry
    for _ in range(4000):
        start, carry = start @ left[..., :states], carry @ left[..., :states]
        starts, carries = starts + start, carries + carry
    return starts.squeeze(-2), carries


@pytest.mark.parametrize("block", [1, 3, 256])
@pytest.mark.parametrize(("nonterminals", "batched", "scale"), [(1, False, 1.0), (7, False, 6.0), (8, True, 3.0)])
def test_elimination_keeps_every_digit(
    monkeypatch: pytest.MonkeyPatch, block: int, nonterminals: int, batched: bool, scale: float
) -> None:
    monkeypatch.setattr(closure, "BLOCK", block)
    _, root, left, right = plain(random_case(2, 3, nonterminals, 4, batched=batched, scale=scale))
    found = left_corner_closure(SimpleRules(root, left, right))
    start, carry = fixed_point(root, left / left.sum(-1, keepdim=True), right)
    torch.testing.assert_close(found.start, start, rtol=1e-9, atol=0)
    torch.testing.assert_close(found.carry, carry, rtol=1e-9, atol=0)


def test_roots_of_several_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    _, root, left, right = plain(random_case(2, 3, 5, 4))
    roots = torch.stack([root, root.flip(0)])
    monkeypatch.setattr(closure, "BLOCK", 2)
    both = left_corner_closure(SimpleRules(roots, left, right))
    for row, one in zip(both.start, roots, strict=True):
        torch.testing.assert_close(row, left_corner_closure(SimpleRules(one, left, right)).start)


@pytest.mark.parametrize("block", [1, 2])
def test_elimination_of_rules_with_zeros(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """What no chain of left children reaches is exactly 0, and what never ends is refused, in whichever block."""
    monkeypatch.setattr(closure, "BLOCK", block)
    left = torch.tensor(
        [[0.2, 0.3, 0.0, 0.0, 0.5], [0.6, 0.0, 0.0, 0.0, 0.4], [0.1, 0.1, 0.1, 0.3, 0.4], [0.0, 0.2, 0.5, 0.0, 0.3]],
        dtype=torch.float64,
    )
    same = torch.eye(4, 5, dtype=torch.float64)
    root = torch.full((4,), 0.25, dtype=torch.float64)
    corners = left_corner_closure(SimpleRules(root, left, same)).carry
    torch.testing.assert_close(corners, torch.linalg.inv(torch.eye(4, dtype=torch.float64) - left[:, :4]))
    assert (corners[:2, 2:] == 0).all()
    for stuck in ([0], [3], [0, 3], [1, 2]):
        cyclic = left.clone()
        cyclic[stuck] = 0.0
        cyclic[stuck, torch.tensor(stuck).roll(1)] = 1.0
        with pytest.raises(NumericalError, match=f"nonterminal {stuck[0]} has"):
            left_corner_closure(SimpleRules(root, cyclic, same))


def test_gradients_through_elimination(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closure, "BLOCK", 2)
    _, *logits = plain(random_case(1, 2, 5, 3))

    def both(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        found = left_corner_closure(SimpleRules(*(tensor.log().softmax(-1) for tensor in tensors)))
        return found.start, found.carry

    assert torch.autograd.gradcheck(both, [tensor.requires_grad_() for tensor in logits])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("lengths", [None, [5, 1, 0, 3], [4, 4, 4, 4]])
def test_without_ends_the_rest_is_the_same(backend: str, batched: bool, lengths: list[int] | None) -> None:
    tensors = plain(random_case(4, 5, 3, 4, batched=batched, scale=3.0))
    sizes = None if lengths is None else torch.tensor(lengths)
    for b, length in enumerate(lengths or []):
        tensors[0][b, length:] = math.nan
    every, fewer = (
        prefix_states(*rules_and_sentences(*tensors, lengths=sizes), backend=backend, ends=ends)
        for ends in (True, False)
    )
    torch.testing.assert_close(fewer.log_prefix, every.log_prefix, rtol=0, atol=1e-12)
    assert fewer.log_sentence.shape == (4, 6 if backend == "triton" else 5)
    for b, length in enumerate(lengths or [5] * 4):
        inner = slice(0, length)
        torch.testing.assert_close(fewer.log_sentence[b, inner], every.log_sentence[b, inner], rtol=0, atol=1e-12)
        tags = [states.next_tags(inner)[b] for states in (fewer, every)]
        torch.testing.assert_close(*tags, rtol=0, atol=1e-12)
    none = prefix_states(*rules_and_sentences(tensors[0][:, :0], *tensors[1:]), backend=backend, ends=False)
    assert (none.log_prefix == 0).all()


@pytest.mark.parametrize("batched", [False, True])
def test_tags_of_some_prefixes(batched: bool) -> None:
    states = prefix_states(*rules_and_sentences(*plain(random_case(3, 4, 3, 5, batched=batched))))
    sentences, positions = torch.tensor([2, 0, 2, 1]), torch.tensor([0, 4, 3, 1])
    found = states.tags_at(sentences, positions)
    torch.testing.assert_close(found, states.next_tags(slice(None))[sentences, positions], rtol=0, atol=1e-13)


def test_words_that_occur_repeatedly() -> None:
    log_emissions, *rules = plain(random_case(3, 6, 4, 5, scale=2.0))
    words = torch.tensor([[0, 1, 0, 2, 1, 1], [2, 2, 2, 2, 2, 2], [0, 1, 2, 3, 4, 5]])
    log_emissions = log_emissions[2][words]
    chosen, which = distinct_rows(log_emissions.flatten(0, 1))
    assert len(chosen) == 6
    assert torch.equal(log_emissions.flatten(0, 1)[chosen][which], log_emissions.flatten(0, 1))
    torch.testing.assert_close(
        prefix_log_probabilities(*rules_and_sentences(log_emissions, *rules)),
        naive((log_emissions, *rules)),
        rtol=0,
        atol=1e-12,
    )


def test_rows_of_equal_sums_are_not_taken_for_equal() -> None:
    rows = torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [-math.inf, 0.0], [0.0, -math.inf]])
    chosen, which = distinct_rows(rows)
    assert torch.equal(rows[chosen][which], rows)


def test_products_in_float32_only_where_nothing_underflows() -> None:
    tensors = plain(random_case(2, 20, 12, 15, scale=1.0), torch.float32)
    narrow = left_corner_closure(SimpleRules(*tensors[1:]))
    single = narrow.float32_carry()
    assert single is not None
    assert single.dtype == torch.float32
    exact = prefix_log_probabilities(*rules_and_sentences(*(tensor.double() for tensor in tensors)))
    torch.testing.assert_close(
        prefix_log_probabilities(*rules_and_sentences(*tensors), closure=narrow), exact, rtol=0, atol=2e-5
    )
    peaked = plain(random_case(2, 20, 12, 15, scale=100.0), torch.float32)
    assert left_corner_closure(SimpleRules(*peaked[1:])).float32_carry() is None
