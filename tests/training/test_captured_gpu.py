"""On a GPU: steps as CUDA graphs give what the same steps give when they are launched one by one."""

import math
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from simplepcfg.errors import NumericalError
from simplepcfg.models import CPCFG, NPCFG, CPCFGConfig, NPCFGConfig, SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.ops.cuda_graphs.capture import side_stream
from simplepcfg.runs.checkpoint import Checkpoint, TrainingState
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import Interrupted, train
from simplepcfg.training.step.counters import copy_to_state
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.step import Step
from step_checks import (
    WORDS,
    largest_difference,
    make_step,
    mixed_batches,
    run_steps,
    tiny_model,
    unlikely_pairs,
    weights,
)
from step_timing import timed_steps
from toy_runs import LEVERS, SignalAt, differences

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]
GPU = torch.device("cuda")
SIZES = SimpleNPCFGConfig(nonterminals=32, preterminals=64, embedding=32)


def model_on_gpu(precision: str = "fp32", dtype: torch.dtype = torch.float32) -> SimpleNPCFG:
    return tiny_model("cuda", precision, dtype, SIZES)


def trained(model: SimpleNPCFG, count: int, biased: int = 0, **choices: object) -> tuple[Step, list[float]]:
    with side_stream(GPU):
        step = make_step(model, **choices)
        return step, run_steps(step, mixed_batches(count, shapes=6), biased=biased)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_captured_equals_eager(precision: str) -> None:
    eager, captured = model_on_gpu(precision), model_on_gpu(precision)
    _, expected = trained(eager, 30)
    step, found = trained(captured, 30, captured_shapes=96)
    assert len(step.gradient_runner.shapes) > 3
    assert largest_difference(weights(eager), weights(captured)) == 0
    assert found == expected


@pytest.mark.parametrize("score", [0.0, -200.0])
def test_captured_dense_steps_equal_eager_ones(score: float) -> None:
    """Also where the pairs of words have the lowest probability that a rule can have."""
    found = []
    for shapes in (0, 96):
        torch.manual_seed(3)
        model = NPCFG(NPCFGConfig(nonterminals=6, preterminals=8, embedding=8), WORDS).cuda().train()
        unlikely_pairs(model, score)
        step, values = trained(model, 30, captured_shapes=shapes)
        assert len(step.gradient_runner.shapes) > 3 or not shapes
        found.append((values, weights(model)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    assert largest_difference(found[0][1], found[1][1]) < 1e-4


def test_compound_dense_steps_are_captured() -> None:
    torch.manual_seed(3)
    model = CPCFG(CPCFGConfig(nonterminals=6, preterminals=8, embedding=8, latent=3, encoder=8), WORDS).cuda().train()
    step, values = trained(model, 30, captured_shapes=96)
    assert len(step.gradient_runner.shapes) > 3
    assert all(math.isfinite(value) for value in values)


def test_card_equals_cpu() -> None:
    """In float64, where Adam cannot make steps of rounding errors."""
    on_cpu = tiny_model("cpu", dtype=torch.float64, sizes=SIZES)
    expected = run_steps(make_step(on_cpu), mixed_batches(30, shapes=6))
    on_gpu = model_on_gpu(dtype=torch.float64)
    _, found = trained(on_gpu, 30, captured_shapes=96)
    assert largest_difference(weights(on_cpu), weights(on_gpu)) < 1e-5
    assert found == pytest.approx(expected, rel=1e-5)


def test_steps_with_a_branching_bias_equal_those_of_a_cpu() -> None:
    """Captured with their bias, and then without one."""
    on_cpu = tiny_model("cpu", dtype=torch.float64, sizes=SIZES)
    expected = run_steps(make_step(on_cpu), mixed_batches(30, shapes=6), biased=12)
    on_gpu = model_on_gpu(dtype=torch.float64)
    step, found = trained(on_gpu, 30, biased=12, captured_shapes=96)
    assert step.gradient_runner.shapes
    assert largest_difference(weights(on_cpu), weights(on_gpu)) < 1e-5
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("rms_norm", [False, True])
@pytest.mark.parametrize(("precision", "least"), [("bf16", 0.98), ("tf32", 0.999)])
def test_gradients_point_where_those_of_float32_do(precision: str, least: float, rms_norm: bool) -> None:
    """Of every parameter that has a part in the step: networks, gains, rules, emissions and the inside algorithm."""
    # Logits that begin far apart are meant for normalised features alone; the paper's networks begin with small ones.
    start = (
        replace(SIZES, rms_norm=True, init_logit_std=1)
        if rms_norm
        else replace(SIZES, rms_norm=False, init_logit_std=0)
    )
    sizes = replace(start, nonterminals=256, preterminals=512, embedding=128)
    words = torch.randint(1, WORDS, (8, 12), generator=torch.Generator().manual_seed(0)).cuda()
    found = {}
    for name in ("fp32", precision):
        model = tiny_model("cuda", name, torch.float32, sizes)
        gradients = torch.autograd.grad(model.loss(words).mean(), list(model.parameters()))
        found[name] = dict(zip(dict(model.named_parameters()), gradients, strict=True))
    whole = torch.cat([gradient.flatten() for gradient in found["fp32"].values()]).norm()
    for name, exact in found["fp32"].items():
        if exact.norm() > 1e-2 * whole:
            near = torch.nn.functional.cosine_similarity(found[precision][name].flatten(), exact.flatten(), dim=0)
            assert float(near) > least, name


def test_cache_is_bounded() -> None:
    eager, captured = model_on_gpu(), model_on_gpu()
    trained(eager, 40)
    step, _ = trained(captured, 40, captured_shapes=2)
    assert len(step.gradient_runner.shapes) <= 2
    assert largest_difference(weights(eager), weights(captured)) == 0


class Poison(Group):
    """Spoils the gradient of some steps, between the two programs."""

    def __init__(self, calls: set[int]) -> None:
        self._calls, self._count = calls, 0

    def all_reduce(self, *tensors: torch.Tensor | None) -> None:
        if self._count in self._calls and tensors[0] is not None:
            tensors[0][:3].fill_(torch.nan)
        self._count += 1


@pytest.mark.parametrize("shapes", [0, 96])
def test_nonfinite_steps_move_nothing(shapes: int) -> None:
    bad = {0, 7, 8, 20}
    clean, model = model_on_gpu(), model_on_gpu()
    batches = mixed_batches(25, shapes=6)
    with side_stream(GPU):
        run_steps(make_step(clean), [batch for number, batch in enumerate(batches) if number not in bad])
        step = make_step(model, Poison(bad), captured_shapes=shapes)
        values = run_steps(step, batches)
    state = TrainingState()
    counters = copy_to_state(values, state)
    assert (state.skipped_steps, state.skipped_in_a_row, counters["longest_in_a_row"]) == (4, 0, 2)
    assert {float(value["step"]) for value in step.optimizer.state.values()} == {21.0}
    assert largest_difference(weights(clean), weights(model)) == 0


def test_replayed_steps_do_not_wait_for_the_gpu() -> None:
    model = model_on_gpu("bf16")
    batches = [batch for batch in mixed_batches(40, shapes=3) if len(set(batch.lengths.tolist())) == 1]
    with side_stream(GPU), timed_steps() as timer:
        step = make_step(model, captured_shapes=96)
        for batch in batches + batches:
            step(batch, len(batch), 0.01)
        torch.cuda.set_sync_debug_mode("error")
        try:
            for batch in batches:
                step(batch, len(batch), 0.01)
                step.counters.read_delayed()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    times = timer.results()
    assert all(time.replayed for time in times[-len(batches) :])
    assert all(time.milliseconds > 0 for time in times)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("levers", [[], LEVERS], ids=["plain", "levers"])
def test_resumed_equals_undisturbed(make_config, tmp_path: Path, precision: str, levers: list[str]) -> None:
    sizes = ["model.nonterminals=32", "model.preterminals=64", "model.embedding=32", *levers]
    config = make_config("training.device=cuda", f"training.precision={precision}", "training.log_every=7", *sizes)
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    train(config, whole.path)
    for step in (4, 13):
        with pytest.raises(Interrupted):
            train(config, broken.path, resume=step > 4, reporter=SignalAt(step, signal.SIGTERM))
    train(config, broken.path, resume=True)
    assert differences(whole, broken) == []


@pytest.mark.parametrize("levers", [[], LEVERS], ids=["plain", "levers"])
def test_captured_run_equals_launched_run(make_config, tmp_path: Path, levers: list[str]) -> None:
    found = []
    for shapes in (0, 96):
        settings = ["training.device=cuda", f"training.captured_shapes={shapes}", "training.epochs=6", *levers]
        config = make_config(*settings)
        train(config, tmp_path / f"run-{shapes}")
        found.append(Checkpoint.load(RunFolder(tmp_path / f"run-{shapes}").checkpoint))
    assert found[0].state.model_copy(update={"seconds": 0}) == found[1].state.model_copy(update={"seconds": 0})
    assert largest_difference(found[0].weights, found[1].weights) == 0


def test_twenty_nonfinite_steps_in_a_row_end_the_run(make_config, tmp_path: Path, monkeypatch) -> None:
    original = SimpleNPCFG.loss
    monkeypatch.setattr(SimpleNPCFG, "loss", lambda self, *given: original(self, *given) * torch.nan)
    config = make_config("training.device=cuda", "training.epochs=50", "training.log_every=1000")
    with pytest.raises(NumericalError, match="20 steps in a row"):
        train(config, tmp_path / "run")


def test_rule_count_check_on_a_gpu(make_config, tmp_path: Path) -> None:
    train(make_config("training.device=cuda", "training.check_identity=true"), tmp_path / "run")
    assert "rule_count_ratio" in (tmp_path / "run" / "metrics.jsonl").read_text("utf-8")
