"""`inside` in other people's models: torch.compile, autocast, checkpointing, torch.func, and the life of a chart."""

import gc
import weakref

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from finite_differences import check_second_derivatives
from random_grammars import random_case, rules_and_sentences
from simplepcfg.errors import InputError
from simplepcfg.ops.inside import autograd, inside, operators, span_marginals
from simplepcfg.ops.inside.autograd import chart_of, empty_handle, make_handle
from simplepcfg.ops.prefix import prefix_log_probabilities
from simplepcfg.ops.sample import sample_trees
from simplepcfg.ops.viterbi import viterbi

LENGTHS = torch.tensor([4, 2, 3])
BACKENDS = ["torch", "triton"]


def inputs(batched: bool = False) -> tuple[Tensor, ...]:
    return random_case(3, 4, 3, 5, batched=batched, scale=2.0).tensors()


def bonus() -> Tensor:
    return torch.randn(3, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()


def gradients(log_z: Tensor, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    weights = torch.tensor([1.0, -0.5, 2.0], dtype=log_z.dtype)
    return log_z.detach(), *torch.autograd.grad((log_z * weights).sum(), tensors)


def assert_equal(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("backend", "batched"), [("torch", False), ("torch", True), ("triton", False)])
def test_opcheck(backend: str, batched: bool) -> None:
    tensors = inputs(batched)
    options = (bonus(), LENGTHS, None, backend)
    torch.library.opcheck(operators.inside_forward, (*tensors, *options, True))
    plain = tuple(tensor.detach() for tensor in tensors)
    arguments = (torch.ones(3, dtype=torch.float64), empty_handle(), *plain, bonus().detach(), LENGTHS, None, backend)
    for needs in ([True] * 4, [False, True, False, True]):
        torch.library.opcheck(operators.inside_backward, (*arguments, needs))


@pytest.mark.parametrize(("backend", "lengths"), [("auto", None), ("auto", LENGTHS), ("triton", LENGTHS)])
def test_compiled_in_one_graph(backend: str, lengths: Tensor | None) -> None:
    """A model around `inside` is one graph without breaks, and its gradients have the same bits."""

    def model(log_emissions: Tensor, root: Tensor, rules: Tensor, weights: Tensor) -> Tensor:
        left, right = rules.softmax(-1).chunk(2)
        return inside(log_emissions.log_softmax(-1), root.softmax(-1), left, right, lengths=lengths, backend=backend)

    emissions, root, left, right = inputs()
    tensors = (emissions, root, torch.cat([left, right]).detach().requires_grad_(), bonus())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        assert_equal(gradients(compiled(*tensors), tensors[:3]), gradients(model(*tensors), tensors[:3]))


@pytest.mark.parametrize(("backend", "lengths"), [("auto", None), ("triton", LENGTHS)])
def test_compiled_span_marginals(backend: str, lengths: Tensor | None) -> None:
    """They are one operator without derivatives."""

    def model(log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        return span_marginals(log_emissions * 1, root, left * 1, right, lengths=lengths, backend=backend)

    tensors, compiled = inputs(), torch.compile(model, fullgraph=True, backend="aot_eager")
    found = compiled(*tensors)
    assert_equal(found, model(*tensors))
    assert not any(tensor.requires_grad for tensor in found)
    given = tuple(tensor.detach() for tensor in tensors)
    torch.library.opcheck(operators.span_marginals_forward, (*given, bonus().detach(), LENGTHS, None, "torch"))


@pytest.mark.slow
@pytest.mark.parametrize("question", ["viterbi", "sample_trees", "prefix_log_probabilities"])
def test_other_questions_break_the_graph(question: str) -> None:
    ask = {
        "viterbi": lambda *given: viterbi(*rules_and_sentences(*given)).log_probability,
        "sample_trees": lambda *given: (
            sample_trees(*rules_and_sentences(*given), 2, generator=torch.Generator().manual_seed(0)).log_probability
        ),
        "prefix_log_probabilities": lambda *given: prefix_log_probabilities(*rules_and_sentences(*given)),
    }[question]
    tensors = tuple(tensor.detach() for tensor in inputs())

    def model(emissions: Tensor, *rules: Tensor) -> Tensor:
        return ask(emissions * 1, *rules) + 1

    assert torch.equal(torch.compile(model, backend="aot_eager")(*tensors), model(*tensors))


def test_compiled_values_are_checked_when_it_runs() -> None:
    tensors = inputs()
    compiled = torch.compile(lambda lengths: inside(*tensors, lengths=lengths), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(LENGTHS), inside(*tensors, lengths=LENGTHS))
    with pytest.raises(InputError, match=r"lengths\[1\] = 7 exceeds n = 4"):
        compiled(torch.tensor([4, 7, 2]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_changes_nothing(backend: str) -> None:
    """The products have the precision that `precision` names, within autocast too."""
    tensors = tuple(tensor.detach().float().requires_grad_() for tensor in inputs())
    expected = gradients(inside(*tensors, lengths=LENGTHS, backend=backend), tensors)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = gradients(inside(*tensors, lengths=LENGTHS, backend=backend), tensors)
    assert found[0].dtype == torch.float32
    assert_equal(found, expected)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_checkpointing(backend: str, reentrant: bool) -> None:
    tensors = inputs()

    def log_z(*given: Tensor) -> Tensor:
        return inside(*given, lengths=LENGTHS, backend=backend)

    weights = torch.tensor([1.0, -0.5, 2.0], dtype=torch.float64)
    checkpointed = checkpoint(log_z, *tensors, use_reentrant=reentrant)
    (checkpointed * weights).sum().backward()
    found = (checkpointed.detach(), *(tensor.grad for tensor in tensors))
    assert_equal(found, gradients(log_z(*tensors), tensors))


def test_checkpointing_frees_the_chart(charts: list[weakref.ref]) -> None:
    log_z = checkpoint(lambda *given: inside(*given), *inputs(), use_reentrant=False)
    assert [chart() for chart in charts] == [None]
    log_z.sum().backward()
    assert [chart() for chart in charts] == [None, None]


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref]:
    """Every chart that is made from now on."""
    made: list[weakref.ref] = []

    class Watched(autograd.DifferentiableChart):
        def __init__(self, arguments: object) -> None:
            super().__init__(arguments)
            made.append(weakref.ref(self))

    monkeypatch.setattr(autograd, "DifferentiableChart", Watched)
    return made


def test_the_chart_lives_until_the_backward_pass(charts: list[weakref.ref]) -> None:
    tensors = inputs()
    gc.collect()
    gc.disable()  # charts are freed by their reference counts alone
    try:
        log_z = inside(*tensors)
        other = inside(*tensors)
        assert all(chart() is not None for chart in charts)
        first = torch.autograd.grad(log_z.sum(), tensors, retain_graph=True)
        assert all(chart() is not None for chart in charts)
        assert_equal(torch.autograd.grad(log_z.sum(), tensors), first)
        assert [chart() is None for chart in charts] == [True, False]
        del other
        with torch.no_grad():
            inside(*tensors)
        assert [chart() is None for chart in charts] == [True, True, True]
    finally:
        gc.enable()


@pytest.mark.parametrize("backend", BACKENDS)
def test_saved_tensors_that_were_copied(backend: str) -> None:
    """A copy of the handle owns no chart, so the chart is filled again."""
    tensors = inputs()
    with torch.autograd.graph.save_on_cpu():
        log_z = inside(*tensors, lengths=LENGTHS, backend=backend)
    assert_equal(gradients(log_z, tensors), gradients(inside(*tensors, lengths=LENGTHS, backend=backend), tensors))


def test_handles() -> None:
    chart, other = {"some": "chart"}, {"other": "chart"}
    handle, second = make_handle(chart), make_handle(other)
    assert chart_of(handle) is chart
    assert chart_of(second) is other
    assert chart_of(handle.detach()) is chart
    assert chart_of(handle.clone()) is None
    assert chart_of(empty_handle()) is None
    assert int(handle) == 0


def test_torch_func_grad() -> None:
    tensors = inputs()
    expected = torch.autograd.grad(inside(*tensors, lengths=LENGTHS).sum(), tensors)
    plain = tuple(tensor.detach() for tensor in tensors)
    found = torch.func.grad(lambda *given: inside(*given, lengths=LENGTHS).sum(), argnums=(0, 1, 2, 3))(*plain)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_second_derivatives_of_the_operator() -> None:
    """The operator's gradient can be differentiated, as that of a plain call can."""
    emissions, root, left, right = inputs()

    def log_z(rules: Tensor) -> Tensor:
        rest = (None, LENGTHS, None, "auto", True)
        return operators.inside_forward(emissions, root, rules.softmax(-1), right, *rest)[0]

    check_second_derivatives(log_z, [torch.randn_like(left).requires_grad_()])
