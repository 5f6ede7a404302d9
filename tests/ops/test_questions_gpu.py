"""On a GPU: marginals, counts, and entropy against the CPU in float64."""

import pytest
import torch
from torch import Tensor

from random_grammars import random_case, rules_and_sentences
from simplepcfg.ops.entropy import derivation_entropy
from simplepcfg.ops.marginals import rule_counts, symbol_marginals, tag_marginals
from simplepcfg.ops.mbr import best_trees

pytestmark = pytest.mark.gpu

LENGTHS = torch.tensor([17, 3, 1, 9])


def pair(batched: bool, seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], list[Tensor]]:
    """The same rounded numbers on a GPU, and on the CPU in float64."""
    case = random_case(4, 17, 130, 70, scale=3.0, batched=batched, seed=seed)
    narrow = [tensor.detach().to(dtype) for tensor in case.tensors()]
    return [tensor.cuda() for tensor in narrow], [tensor.double() for tensor in narrow]


def bonus() -> Tensor:
    found = torch.randn(4, 18, 18, generator=torch.Generator().manual_seed(1))
    found[:, 2, 5] = -torch.inf
    return found


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_marginals(batched: bool, dtype: torch.dtype) -> None:
    gpu, host = pair(batched, dtype=dtype)
    close = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-8, "atol": 1e-9}
    for question in (symbol_marginals, tag_marginals):
        found = question(*rules_and_sentences(*gpu, lengths=LENGTHS, span_bonus=bonus().cuda()))[1]
        truth = question(*rules_and_sentences(*host, lengths=LENGTHS, span_bonus=bonus().double()))[1]
        torch.testing.assert_close(found.cpu().double(), truth, **close)
    found = rule_counts(*rules_and_sentences(*gpu, lengths=LENGTHS))[1]
    truth = rule_counts(*rules_and_sentences(*host, lengths=LENGTHS))[1]
    for name in ("root", "left", "right"):
        torch.testing.assert_close(getattr(found, name).cpu().double(), getattr(truth, name), **close)
    spans = torch.tensor([[3, 2, 9], [0, 0, 17], [1, 0, 9]])
    chosen = symbol_marginals(*rules_and_sentences(*gpu, lengths=LENGTHS), spans=spans.cuda())[1]
    truth = symbol_marginals(*rules_and_sentences(*host, lengths=LENGTHS), spans=spans)[1]
    torch.testing.assert_close(chosen.cpu().double(), truth, **close)


@pytest.mark.parametrize("batched", [False, True])
def test_entropy(batched: bool) -> None:
    p, p_host = pair(batched)
    options = {"lengths": LENGTHS, "span_bonus": bonus().cuda()}
    on_host = {"lengths": LENGTHS, "span_bonus": bonus().double()}
    found, truth = (
        derivation_entropy(*rules_and_sentences(*p, **options)).cpu(),
        derivation_entropy(*rules_and_sentences(*p_host, **on_host)),
    )
    torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-3)


def test_best_trees() -> None:
    weights = torch.rand(4, 18, 18, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    forbidden = bonus() == -torch.inf
    assert best_trees(weights.cuda(), LENGTHS, forbidden.cuda()) == best_trees(weights, LENGTHS, forbidden)
