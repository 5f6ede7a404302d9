"""The dense inside algorithm on a GPU: what the CPU says, and within the memory that its README counts."""

import pytest
import torch

from dense_oracle import random_dense_case
from simplepcfg.grammars import DenseEmissions, DenseGrammar
from simplepcfg.models import NPCFG, NPCFGConfig
from simplepcfg.ops.dense import check_dense_arguments, dense_inside
from simplepcfg.ops.dense.marginals import dense_span_marginals
from simplepcfg.ops.dense.trees import dense_viterbi

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
    both = [check_dense_arguments(*given, lengths) for given in (there, case.tensors())]
    marginals = [dense_span_marginals(given)[1].cpu() for given in both]
    torch.testing.assert_close(*marginals)
    trees = [dense_viterbi(given) for given in both]
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


def test_trees_and_prefixes_as_on_a_cpu() -> None:
    """The generator lies on the CPU, so that both draw by the same numbers."""
    case = random_dense_case(3, 9, 5, 8, scale=2.0)
    lengths = torch.tensor([9, 5, 2])
    log_emit = torch.randn(8, 20, generator=torch.Generator().manual_seed(1), dtype=torch.float64).log_softmax(-1)
    words = torch.randint(1, 20, (3, 9), generator=torch.Generator().manual_seed(2))
    root, rules = case.root.detach(), case.rules.detach()
    here = DenseGrammar(root, rules, DenseEmissions(log_emit))
    there = DenseGrammar(root.cuda(), rules.cuda(), DenseEmissions(log_emit.cuda()))
    asked = {"samples": 20, "generator": torch.Generator()}
    expected = here.sample_trees(words, lengths, **asked)
    found = there.sample_trees(words.cuda(), lengths, **{**asked, "generator": torch.Generator()})
    assert torch.equal(found.labels.cpu(), expected.labels)
    torch.testing.assert_close(found.log_probability.cpu(), expected.log_probability)
    drawn = [one.sample(50, max_length=12, generator=torch.Generator()) for one in (there, here)]
    assert torch.equal(drawn[0].words.cpu(), drawn[1].words)
    best = [one.k_best(w, lengths, k=5) for one, w in ((there, words.cuda()), (here, words))]
    for mine, theirs in zip(*best, strict=True):
        assert [t.log_probability for t in mine] == pytest.approx([t.log_probability for t in theirs])
    for question in ("entropy", "surprisal", "next_word_log_probabilities", "next_word_entropy"):
        torch.testing.assert_close(
            getattr(there, question)(words.cuda(), lengths).cpu(), getattr(here, question)(words, lengths)
        )
