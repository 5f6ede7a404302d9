"""The dense inside algorithm on a card: what the CPU says, and within the memory that its README counts."""

import pytest
import torch

from dense_oracle import random_dense_case
from simplepcfg.models import NPCFG, NPCFGConfig
from simplepcfg.ops.dense import dense_inside, dense_span_posteriors
from simplepcfg.ops.dense.viterbi import dense_viterbi

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_as_on_a_cpu(scale: float, batched: bool) -> None:
    case = random_dense_case(3, 12, 9, 17, scale=scale, batched=batched)
    lengths = torch.tensor([12, 7, 2])
    there = [tensor.detach().cuda().requires_grad_() for tensor in case.tensors()]
    found, expected = dense_inside(*there, lengths=lengths), dense_inside(*case.tensors(), lengths=lengths)
    torch.testing.assert_close(found.cpu(), expected)
    gradients = zip(
        torch.autograd.grad(found.sum(), there), torch.autograd.grad(expected.sum(), case.tensors()), strict=True
    )
    for (mine, theirs), value in zip(gradients, (1.0, case.root, case.rules), strict=True):
        torch.testing.assert_close(mine.cpu() * value, theirs * value)
    posteriors = [dense_span_posteriors(*given, lengths=lengths)[1].cpu() for given in (there, case.tensors())]
    torch.testing.assert_close(*posteriors)
    trees = [dense_viterbi(*given, lengths=lengths) for given in (there, case.tensors())]
    assert torch.equal(trees[0].spans.cpu(), trees[1].spans)


def test_256_nonterminals_train_within_10_gb() -> None:
    model = NPCFG(NPCFGConfig(nonterminals=256, preterminals=512), 10_000).cuda().train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    words = torch.randint(1, 10_000, (16, 40), device="cuda")
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        optimiser.zero_grad()
        loss = model.loss(words).mean()
        loss.backward()
        optimiser.step()
    assert loss.isfinite()
    assert torch.cuda.max_memory_allocated() < 10e9
