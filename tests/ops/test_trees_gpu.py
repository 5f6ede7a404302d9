"""Viterbi and sampling on a GPU: against the CPU, at sizes with several tiles, with no waiting for the GPU inside."""

import math

import pytest
import torch

from random_grammars import Case, random_case, rules_and_sentences
from simplepcfg.grammars import DenseEmissions, SimpleGrammar
from simplepcfg.ops.arguments import SimpleRules
from simplepcfg.ops.sample import sample_derivations, sample_trees
from simplepcfg.ops.viterbi import viterbi
from simplepcfg.ops.viterbi.k_best import k_best

pytestmark = pytest.mark.gpu


def on_gpu(case: Case) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.detach().cuda() for tensor in case.tensors())


SIZES = [(3, 7, 63, 33), (5, 12, 300, 517), (2, 40, 129, 256), (1, 2, 1, 1), (24, 9, 512, 1024)]


@pytest.mark.parametrize(
    ("batch", "n", "nonterminals", "preterminals", "batched"),
    [(*size, False) for size in SIZES] + [(*size, True) for size in SIZES if size[0] <= 4],
)
def test_viterbi_as_on_the_cpu(batch: int, n: int, nonterminals: int, preterminals: int, batched: bool) -> None:
    case = random_case(batch, n, nonterminals, preterminals, scale=3.0, batched=batched, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, n + 1, (batch,), generator=generator)
    bonus = torch.randn(batch, n + 1, n + 1, generator=generator)
    theirs = viterbi(*rules_and_sentences(*case.tensors(), lengths=lengths, span_bonus=bonus))
    ours = viterbi(*rules_and_sentences(*on_gpu(case), lengths=lengths, span_bonus=bonus.cuda()))
    torch.testing.assert_close(ours.log_probability.cpu(), theirs.log_probability.detach(), rtol=1e-5, atol=1e-4)
    same = (ours.labels.cpu() == theirs.labels).all(1)
    assert same.float().mean() > 0.9  # a near tie may fall either way in float32
    repeated = viterbi(*rules_and_sentences(*on_gpu(case), lengths=lengths, span_bonus=bonus.cuda()))
    assert torch.equal(ours.labels, repeated.labels)
    assert torch.equal(ours.log_probability, repeated.log_probability)


@pytest.mark.parametrize(("batch", "n", "nonterminals", "preterminals"), SIZES[:3])
def test_viterbi_in_float64(batch: int, n: int, nonterminals: int, preterminals: int) -> None:
    case = random_case(batch, n, nonterminals, preterminals, scale=2.0)
    theirs, ours = viterbi(*rules_and_sentences(*case.tensors())), viterbi(*rules_and_sentences(*on_gpu(case)))
    for field in ("spans", "splits", "labels", "tags"):
        assert torch.equal(getattr(ours, field).cpu(), getattr(theirs, field))


def test_products_at_full_size() -> None:
    """Enough rows, parents and symbols that the product has several tiles and several parts."""
    from simplepcfg.ops.arguments import check_arguments
    from simplepcfg.ops.viterbi.chart import max_plus
    from simplepcfg.ops.viterbi.fused import FusedViterbiChart

    case = random_case(16, 9, 1000, 2001, dtype=torch.float32)
    chart = FusedViterbiChart(check_arguments(*rules_and_sentences(*on_gpu(case))))
    chart.fill()
    rules = torch.cat(on_gpu(case)[2:]).log()
    for width in range(1, 9):
        rows = chart.layout.with_parents(width)
        values = chart.emit[rows] if width == 1 else chart.best[rows]
        expected = torch.empty_like(chart.children[rows])
        max_plus(values, rules[:, 1000:] if width == 1 else rules[:, :1000], expected)
        assert torch.equal(chart.children[rows], expected)


def test_k_best_as_on_the_cpu() -> None:
    case = random_case(3, 10, 64, 128, scale=2.0)
    ours, theirs = k_best(*rules_and_sentences(*on_gpu(case)), 20), k_best(*rules_and_sentences(*case.tensors()), 20)
    for mine, other in zip(ours, theirs, strict=True):
        assert [(t.spans, t.labels, t.tags) for t in mine] == [(t.spans, t.labels, t.tags) for t in other]
        assert [t.log_probability for t in mine] == pytest.approx([t.log_probability for t in other])


@pytest.mark.parametrize(("batch", "n", "nonterminals", "preterminals"), SIZES[:3])
def test_the_same_draws_as_on_the_cpu(batch: int, n: int, nonterminals: int, preterminals: int) -> None:
    case = random_case(batch, n, nonterminals, preterminals, scale=2.0)
    lengths = torch.randint(2, n + 1, (batch,), generator=torch.Generator().manual_seed(0))
    ours, theirs = (
        sample_trees(*rules_and_sentences(*inputs, lengths=lengths), 4, torch.Generator().manual_seed(1))
        for inputs in (on_gpu(case), case.tensors())
    )
    assert torch.equal(ours.labels.cpu(), theirs.labels)
    assert torch.equal(ours.tags.cpu(), theirs.tags)
    rules = case.tensors()[1:]
    drawn, others = (
        sample_derivations(SimpleRules(*inputs), 50, 12, torch.Generator().manual_seed(2))
        for inputs in (on_gpu(case)[1:], rules)
    )
    assert all(torch.equal(one.cpu(), other) for one, other in zip(drawn[0], others[0], strict=True))


def test_spans_are_drawn_as_often_as_they_are_probable() -> None:
    """At a size that no enumeration reaches: the marginal of each span, within five deviations."""
    case = random_case(2, 12, 256, 512, scale=2.0, dtype=torch.float32)
    inputs = on_gpu(case)
    samples = 4096
    trees = sample_trees(*rules_and_sentences(*inputs), samples, torch.Generator("cuda").manual_seed(0))
    grammar = SimpleGrammar(*inputs[1:], DenseEmissions(torch.zeros(512, 1, device="cuda")))
    from simplepcfg.ops.inside import span_marginals

    _, expected = span_marginals(inputs[0], grammar.root, grammar.left, grammar.right)
    spans = trees.spans.flatten(1, 2)
    counts = torch.zeros(2, 13, 13, device="cuda")
    for b in range(2):
        counts[b].index_put_((spans[b, :, 0], spans[b, :, 1]), torch.ones((), device="cuda"), accumulate=True)
    deviation = (expected * (1 - expected) / samples).clamp(min=0).sqrt()
    assert ((counts / samples - expected).abs() <= 5 * deviation + 2e-3).all()


def test_nothing_waits_for_the_gpu() -> None:
    """A copy to the host within the recursion or on the way down would cost more than either."""
    inputs = on_gpu(random_case(4, 10, 64, 128, dtype=torch.float32))
    viterbi(*rules_and_sentences(*inputs))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        viterbi(*rules_and_sentences(*inputs))
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_one_word_and_impossible_sentences() -> None:
    case = random_case(3, 4, 8, 9, dtype=torch.float32)
    emissions, *rules = on_gpu(case)
    emissions[1, 2] = -math.inf
    lengths = torch.tensor([4, 4, 1])
    best = viterbi(*rules_and_sentences(emissions, *rules, lengths=lengths))
    drawn = sample_trees(
        *rules_and_sentences(emissions, *rules, lengths=lengths), 3, torch.Generator("cuda").manual_seed(0)
    )
    assert best.log_probability.isfinite().tolist() == [True, False, False]
    assert drawn.log_probability.isfinite().tolist() == [[True] * 3, [False] * 3, [False] * 3]
    assert (best.labels[1:] == -1).all()
    assert (drawn.labels[1:] == -1).all()
