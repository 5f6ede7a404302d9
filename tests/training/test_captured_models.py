"""Steps of every model as runner recorded ahead: they leave nothing behind; dense ones doubt instead of asking."""

import gc
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model_checks import tiny_model_of
from simplepcfg.models import MODELS, npcfg
from simplepcfg.ops.deferred_checks import DeferredChecks, condition_holds, current_checks, deferring_checks
from simplepcfg.ops.neural import rule_softmax
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.state_dropout import StateDropout
from simplepcfg.training.step.step import BatchGradientRunner
from step_checks import (
    WORDS,
    FakeCapturer,
    largest_difference,
    make_step,
    mixed_batches,
    run_steps,
    unlikely_pairs,
    weights,
)

KINDS = {config.kind: config for config in MODELS}
DENSE = ["n-pcfg", "c-pcfg"]
# What makes the host wait for a number.
QUESTIONS = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default, torch.ops.aten.equal.default}


def tiny(kind: str) -> torch.nn.Module:
    return tiny_model_of(KINDS[kind](), WORDS)


@pytest.mark.usefixtures("nothing_to_collect")
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_leaves_no_garbage(kind: str) -> None:
    """A cycle of references would keep charts and rules alive until Python looks for such, many steps later."""
    model, words = tiny(kind), torch.randint(1, WORDS, (3, 7), generator=torch.Generator().manual_seed(0))
    for _ in range(2):  # the first call may import and cache
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            torch.autograd.grad(model.loss(words).sum(), list(model.parameters()), allow_unused=True)
            gc.collect()
            left = [thing for thing in gc.garbage if isinstance(thing, torch.Tensor)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
    assert left == []


class NoQuestions(TorchDispatchMode):
    """Fails where a graph could not go on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func not in QUESTIONS, func
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", DENSE)
@pytest.mark.parametrize("n", [2, 3, 9])
def test_a_recorded_dense_step_asks_nothing(monkeypatch: pytest.MonkeyPatch, kind: str, n: int) -> None:
    for place in ("grammars.base.check_words", "models.compound.check_word_ids"):  # look at words on a CPU alone
        monkeypatch.setattr(f"simplepcfg.{place}", lambda *given: None)
    model, words = tiny(kind), torch.randint(1, WORDS, (3, n), generator=torch.Generator().manual_seed(0))
    parameters = list(model.parameters())

    def gradients(seed: int = 0) -> list[torch.Tensor]:
        torch.manual_seed(seed)  # of z
        found = torch.autograd.grad(model.loss(words).sum(), parameters, allow_unused=True)
        return [gradient for gradient in found if gradient is not None]

    expected = gradients()
    checks = DeferredChecks(torch.device("cpu"))
    with NoQuestions(), deferring_checks(checks):
        found = gradients()
    assert checks.has_conditions
    assert not checks.any_true()
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("kind", "dropouts"),
    [
        ("rank-pcfg", {"state_dropout": 0.2}),
        ("tn-pcfg", {}),
        ("hmm", {"state_dropout": 0.2}),
        ("lhmm", {"state_dropout": 0.2, "feature_dropout": 0.3}),
        ("rank-hmm", {"state_dropout": 0.2, "logit_dropout": 0.2}),
    ],
)
def test_making_rules_asks_nothing(kind: str, dropouts: dict[str, float]) -> None:
    """With whatever a step leaves out."""
    model: Any = tiny(kind)
    StateDropout(model, TrainingConfig(**dropouts), seed=1).draw(0)
    words = torch.arange(1, WORDS)[None]
    with NoQuestions():
        grammar = model.grammar()
        rules = [grammar.root, grammar.up, grammar.to_left] if "pcfg" in kind else [grammar.start, *grammar.factors]
        found = [*rules, grammar.emissions.log_probabilities(words)]
        total = sum((tensor * torch.randn_like(tensor)).sum() for tensor in found)
        gradients = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    assert all(gradient is None or bool(gradient.isfinite().all()) for gradient in gradients)


@pytest.mark.parametrize(("score", "doubtful"), [(0.0, False), (-75.0, True)])
def test_doubtful_batches_are_run_again(monkeypatch: pytest.MonkeyPatch, score: float, doubtful: bool) -> None:
    """Whether no batch is doubtful or every one."""
    monkeypatch.setattr(npcfg, "rule_softmax", partial(rule_softmax, least=0.0))  # or none would leave float32's range
    looks: list[bool] = []
    any_true = DeferredChecks.any_true
    monkeypatch.setattr(DeferredChecks, "any_true", lambda self: looks.append(any_true(self)) or looks[-1])
    batches = mixed_batches(30)
    plain, replayed = (tiny("n-pcfg") for _ in range(2))
    for model in (plain, replayed):
        unlikely_pairs(model, score)
    expected = run_steps(make_step(plain), batches)
    capturer = FakeCapturer()
    found = run_steps(make_step(replayed, capturer=capturer, captured_shapes=8), batches)
    assert capturer.captured > 5
    assert len(looks) > 10
    assert set(looks) == {doubtful}
    assert found == pytest.approx(expected, rel=1e-4)
    assert largest_difference(weights(plain), weights(replayed)) < 1e-3


def test_only_what_any_true_is_run_again() -> None:
    """And then with the random numbers of the first time."""
    ran: list[tuple[str, float]] = []

    def gradient(words: torch.Tensor, *_: object) -> None:
        ran.append(("recorded" if current_checks() is not None else "launched", float(torch.rand(()))))
        if condition_holds((words == 7).any(), current_checks()):
            ran.append(("careful", 0.0))

    runner = BatchGradientRunner(gradient, torch.device("cpu"), FakeCapturer(), limit=8)
    lengths = torch.tensor([2, 2])
    assert [runner(torch.full((2, 2), word), lengths, 2) for word in (1, 1, 7, 1)] == [False, True, False, True]
    how, drawn = zip(*ran, strict=True)
    assert how == ("launched", "recorded", "recorded", "launched", "careful", "recorded")
    assert drawn[3] == drawn[2]
    assert len(set(drawn)) == 5
