"""Steps of every model as a runner captures them: they leave nothing behind, and the host waits for no number."""

import gc
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model_checks import tiny_model_of
from simplepcfg.models import MODELS
from simplepcfg.ops.dense import DenseArguments
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.state_dropout import StateDropout
from step_checks import WORDS, unlikely_pairs

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
    monkeypatch.setattr("simplepcfg.ops.dense.recursion.is_captured", lambda device: True)
    with NoQuestions():
        found = gradients()
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


def test_rules_at_the_floor_stay_in_the_range_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """A captured step cannot look whether they do."""
    model = tiny("n-pcfg")
    unlikely_pairs(model, -200.0)  # every pair of words has the lowest probability of a rule
    words = torch.randint(1, WORDS, (3, 9), generator=torch.Generator().manual_seed(0))

    def gradients() -> list[torch.Tensor]:
        found = torch.autograd.grad(model.loss(words).sum(), list(model.parameters()), allow_unused=True)
        return [gradient for gradient in found if gradient is not None]

    monkeypatch.setattr(DenseArguments, "of_sentences", None)  # nothing is computed again
    found = gradients()
    model.double()
    for mine, theirs in zip(found, gradients(), strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-3, atol=1e-5)
