"""Emission log-probabilities and their normaliser: every path against plain autograd in float64."""

import pytest
import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars import FactoredEmissions
from simplepcfg.ops.neural import (
    batch_words,
    emission_log_probabilities,
    emissions,
    exponentials,
    log_normaliser,
    softmax,
)
from simplepcfg.ops.neural.naive import naive_emission_log_probabilities, naive_log_normaliser

SIZES = [(1, 1, 1), (7, 9, 5), (20, 67, 16), (130, 33, 8)]


def case(p: int, v: int, d: int, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(p + v)
    return [
        (torch.randn(rows, d, generator=generator, dtype=torch.float64) * scale).to(dtype).requires_grad_()
        for rows in (p, v)
    ]


def words_of(v: int) -> Tensor:
    """A batch in which some words are frequent."""
    generator = torch.Generator().manual_seed(v)
    words = torch.randint(0, v, (3, 13), generator=generator)
    return torch.where(torch.rand(3, 13, generator=generator) < 0.4, torch.tensor(v // 2), words)


def weights(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def fused_normaliser(features: Tensor, embeddings: Tensor) -> Tensor:
    return emissions._LogNormaliser.apply(features, embeddings, "bf16", True, True)


def fused_emissions(features: Tensor, embeddings: Tensor, words: Tensor) -> Tensor:
    rows = words.flatten(features.dim() - 2)
    found = emissions._EmissionLogProbabilities.apply(features, embeddings, rows, "bf16", True, True)
    return found.view(*words.shape, -1)


def answers(function: object, inputs: list[Tensor], grad: Tensor) -> list[Tensor]:
    """The output and both gradients."""
    found = function(*inputs)  # type: ignore[operator]
    return [tensor.detach() for tensor in (found, *torch.autograd.grad(found, inputs, grad.to(found.dtype)))]


@pytest.fixture(params=["kept", "recomputed"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All words' probabilities kept for backward, or recomputed in several parts."""
    if request.param == "recomputed":
        monkeypatch.setattr(emissions, "KEPT_BYTES", 0)
        monkeypatch.setattr(emissions, "RECOMPUTED_BYTES", 1)
        monkeypatch.setattr(softmax, "CACHED_BYTES", 1)
        monkeypatch.setattr(softmax, "LEAST_LOGIT_ROWS", 16)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("precision", [None, "fp32", "tf32"])
@pytest.mark.parametrize("size", SIZES)
def test_exact_paths(size: tuple[int, int, int], precision: str | None) -> None:
    inputs, words = case(*size), words_of(size[1])
    pairs = [
        (
            answers(lambda f, e: log_normaliser(f, e, precision=precision), inputs, weights(size[0])),
            answers(naive_log_normaliser, inputs, weights(size[0])),
        ),
        (
            answers(
                lambda f, e: emission_log_probabilities(f, e, words, precision=precision),
                inputs,
                weights(3, 13, size[0]),
            ),
            answers(lambda f, e: naive_emission_log_probabilities(f, e, words), inputs, weights(3, 13, size[0])),
        ),
    ]
    for mine, truth in pairs:
        for one, two in zip(mine, truth, strict=True):
            torch.testing.assert_close(one, two)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("tile", [(128, 128, 64), (16, 16, 16)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES)
def test_kernels(
    size: tuple[int, int, int], dtype: torch.dtype, tile: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As near as operands and probabilities of 8 bits allow, twice over: the interpreter cuts off, a GPU rounds."""
    monkeypatch.setattr(exponentials, "TILE", tile)
    features, embeddings = case(*size, dtype)
    embeddings = embeddings.detach().float().requires_grad_()
    words, inputs = words_of(size[1]), [features, embeddings]
    exact = [tensor.detach().bfloat16().double().requires_grad_() for tensor in inputs]
    for mine, naive, shape in (
        (fused_normaliser, naive_log_normaliser, (size[0],)),
        (
            lambda f, e: fused_emissions(f, e, words),
            lambda f, e: naive_emission_log_probabilities(f, e, words),
            (3, 13, size[0]),
        ),
    ):
        grad = weights(*shape).bfloat16().double()
        found, truth = answers(mine, inputs, grad), answers(naive, exact, grad)
        torch.testing.assert_close(found[0].double(), truth[0], rtol=1e-5, atol=1e-5)
        for one, two in zip(found[1:], truth[1:], strict=True):
            assert float((one.double() - two).norm()) <= 2**-6 * float(two.norm()) + 2**-6


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("path", [emission_log_probabilities, fused_emissions])
@pytest.mark.parametrize("size", SIZES)
def test_features_of_each_sentence(size: tuple[int, int, int], path: object) -> None:
    """Three sentences, each with features of its own: what three calls say, and the embeddings' gradients added up."""
    p, v, d = size
    fused, words = path is fused_emissions, words_of(v)
    flat, embeddings = case(3 * p, v, d, torch.float32 if fused else torch.float64)
    inputs = [flat.detach().view(3, p, d).requires_grad_(), embeddings]
    exact = [(tensor.detach().bfloat16() if fused else tensor.detach()).double().requires_grad_() for tensor in inputs]
    grad = weights(3, 13, p).bfloat16().double()
    found = answers(lambda f, e: path(f, e, words), inputs, grad)  # type: ignore[operator]
    truth = answers(
        lambda f, e: torch.stack([naive_emission_log_probabilities(f[b], e, words[b]) for b in range(3)]), exact, grad
    )
    naive = answers(lambda f, e: naive_emission_log_probabilities(f, e, words), exact, grad)
    for one, two, three in zip(found, truth, naive, strict=True):
        torch.testing.assert_close(three, two)
        bound = 1e-5 if not fused or one is found[0] else 2**-6
        assert float((one.double() - two).norm()) <= bound * float(two.norm()) + bound


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("path", [emission_log_probabilities, fused_emissions])
@pytest.mark.parametrize("own", [False, True])
def test_no_gradient_where_preterminals_are_certain(path: object, own: bool) -> None:
    """Rounding leaves nothing behind: features of length 300 times 2⁻⁹ would be a gradient of 0.6 for each position.

    Preterminal t emits word t alone. The gradient by log emit, an expected count, differs between the occurrences of a
    word, as in a sentence where several preterminals may have emitted it.
    """
    directions = torch.eye(5, 16) + 0.01 * weights(5, 16).float()
    embeddings = torch.cat([directions, torch.zeros(15, 16)]).requires_grad_()
    features = 300 * directions.detach().clone()
    features = (features.expand(3, 5, 16) if own else features).clone().requires_grad_()
    words = words_of(5)
    grad = torch.where(words[..., None] == torch.arange(5), weights(3, 13, 5).abs().float(), 0.0)
    found = path(features, embeddings, words)  # type: ignore[operator]
    by_features, by_embeddings = torch.autograd.grad(found, [features, embeddings], grad)
    assert float(by_features.norm()) < 1e-4
    assert float(by_embeddings.norm()) < 1e-3


@pytest.mark.filterwarnings(
    "ignore:overflow encountered in exp"
)  # of the interpreter; such exponentials are recomputed
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("precision", [None, "bf16", "tf32", "kernels"])
def test_all_words_add_up_to_one(precision: str | None, own: bool) -> None:
    """Even where logits are in the hundreds and the operands' rounding alone moves them by more than one."""
    features, embeddings = (tensor.detach() for tensor in case(24, 67, 16, torch.float32, scale=12.0))
    features = features.view(3, 8, 16) if own else features
    words = torch.arange(67).expand(3, 67) if own else torch.arange(67)
    if precision == "kernels":
        found = fused_emissions(features, embeddings, words)
    else:
        found = emission_log_probabilities(features, embeddings, words, precision=precision)
    total = found.double().exp().sum(-2)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-3, atol=0.0)


@pytest.mark.filterwarnings(
    "ignore:overflow encountered in exp"
)  # of the interpreter; such exponentials are recomputed
@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("distance", [30.0, 60.0, 64.0, 200.0])
def test_a_logit_far_above_the_first_ones(distance: float) -> None:
    """Powers are relative to the first words' logits: large ones, and their factors, must not leave the range."""
    features, embeddings = (tensor.detach() for tensor in case(20, 67, 16, torch.float32))
    features[::2, 0], features[1::2, 0], embeddings[:, 0], embeddings[50, 0] = 1.0, 0.0, 0.0, distance
    inputs, words = [tensor.requires_grad_() for tensor in (features, embeddings)], words_of(67)
    words[0, :5] = 50
    exact = [tensor.detach().bfloat16().double().requires_grad_() for tensor in inputs]
    grad = (weights(3, 13, 20) * 1e-4).bfloat16().double()
    found = answers(lambda f, e: fused_emissions(f, e, words), inputs, grad)
    truth = answers(lambda f, e: naive_emission_log_probabilities(f, e, words), exact, grad)
    torch.testing.assert_close(found[0].double(), truth[0], rtol=1e-5, atol=1e-4)
    for one, two in zip(found[1:], truth[1:], strict=True):
        assert float((one.double() - two).norm()) <= 2**-6 * float(two.norm())


@pytest.mark.parametrize("own", [False, True])
def test_no_probability_above_one(own: bool) -> None:
    """Scores of 10¹², of which float32 knows the hundred thousands."""
    features, embeddings = (tensor.detach() for tensor in case(24, 2067, 16, torch.float32, scale=1e6))
    features = features.view(3, 8, 16) if own else features
    words = torch.arange(2067).expand(3, 2067) if own else torch.arange(2067)
    for precision in (None, "bf16"):
        assert float(emission_log_probabilities(features, embeddings, words, precision=precision).max()) <= 0.0
    factored = FactoredEmissions.normalised(features, embeddings)
    ids = torch.arange(1, 2068).expand(3, 2067)
    assert float(factored.log_probabilities(ids).max()) <= 0.0
    assert float(factored.of_words(0, 2068).max()) <= 0.0
    assert float(factored.of_preterminals(torch.arange(8)).max()) <= 0.0


@pytest.mark.parametrize("rounding", [0.0, 2.0**-4])
def test_gradients_of_word_logits(rounding: float) -> None:
    """The kernel computes what torch does; a probability that may be 1 but for rounding is taken for 1."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 9, (2, 50), generator=generator)
    grad, log_probabilities = torch.randn(2, 2, 50, 130, generator=generator)
    log_probabilities = -log_probabilities.abs()
    log_sums, by_log_sums = torch.randn(2, 2, 130, generator=generator)
    given = (grad, log_probabilities, 9 * log_sums, by_log_sums, rounding, torch.float32)
    found = batch_words.by_linked_words(batch_words.word_links(rows), *given)
    expected = batch_words.by_word_logits(rows, 9, *given)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    places = (rows[0] == rows[0, 0]).nonzero()[:, 0]
    assert float(expected[0, places[1:]].abs().max()) == 0.0
    probabilities = log_probabilities[0, 0].exp()
    certain = log_probabilities[0, 0] >= -rounding * (4 + (9 * log_sums[0]).abs())
    assert bool(certain.any()) == (rounding > 0)
    truth = grad[0, places].sum(0) + by_log_sums[0] * torch.where(certain, 1.0, probabilities)
    torch.testing.assert_close(expected[0, 0], truth, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:All-NaN slice encountered")  # of the interpreter
def test_not_a_number_stays_one() -> None:
    """A logit that left the range of numbers is not a probability of 1."""
    features, embeddings = (tensor.detach() for tensor in case(5, 11, 6, torch.float32))
    features[2] = torch.nan
    found = fused_emissions(features, embeddings, torch.arange(4))
    assert bool(found[:, 2].isnan().all())
    assert bool(found[:, [0, 1, 3, 4]].isfinite().all())


def test_occurrences_are_summed_in_order() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 9, (131,), generator=generator)
    rows[torch.rand(131, generator=generator) < 0.5] = 4
    by_occurrence = torch.randn(131, 130, generator=generator)
    total = torch.randn(12, 130, generator=generator)
    truth = total.double().index_add(0, rows, by_occurrence.double())
    first, second = total.clone(), total.clone()
    for mine in (first, second):
        batch_words.add_occurrences(mine, by_occurrence, rows, batch_words.word_links(rows))
    assert torch.equal(first, second)
    torch.testing.assert_close(first.double(), truth, rtol=1e-5, atol=1e-5)
    assert torch.equal(first[9:], total[9:])


@pytest.mark.parametrize("path", [fused_emissions, emission_log_probabilities])
def test_backward_twice(path: object) -> None:
    inputs, words = case(5, 11, 6, torch.float32), words_of(11)
    found = path(*inputs, words)  # type: ignore[operator]
    grad = weights(3, 13, 5).float()
    first = torch.autograd.grad(found, inputs, grad, retain_graph=True)
    second = torch.autograd.grad(found, inputs, grad)
    assert all(torch.equal(one, two) for one, two in zip(first, second, strict=True))


def test_without_gradients_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = case(5, 11, 6)
    monkeypatch.setattr(emissions, "aligned_rows", None)
    with torch.no_grad():
        torch.testing.assert_close(log_normaliser(*inputs), naive_log_normaliser(*inputs))


def test_differentiable_twice() -> None:
    inputs, words = case(3, 5, 4), words_of(5)[:, :3]
    assert torch.autograd.gradgradcheck(log_normaliser, inputs)
    assert torch.autograd.gradgradcheck(lambda f, e: emission_log_probabilities(f, e, words), inputs)


@pytest.mark.parametrize("shapes", [((3, 4), (5, 3)), ((3,), (5, 3)), ((3, 4), (0, 4))])
def test_shapes_that_do_not_fit_are_named(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(InputError, match=r"must be \[P, D\] and \[V, D\]"):
        log_normaliser(*(torch.zeros(shape) for shape in shapes))


def test_sentences_that_do_not_fit_are_named() -> None:
    message = r"rows have shape \[2, 5\] and features \[3, 4, 6\]; they must begin with the same B"
    with pytest.raises(InputError, match=message):
        emission_log_probabilities(torch.zeros(3, 4, 6), torch.zeros(7, 6), torch.zeros(2, 5, dtype=torch.int64))
