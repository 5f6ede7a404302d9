"""A step of two parts: the same weights whether run or replayed, and nothing moves on what is not finite."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from model_checks import tiny_model_of
from simplepcfg.errors import InputError, ResourceError
from simplepcfg.models import MODELS, NPCFGConfig, SimpleCPCFG, SimpleCPCFGConfig, SimpleNPCFG
from simplepcfg.runs.checkpoint import TrainingState
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.runs.device import set_precision
from simplepcfg.training.step.counters import StepCounters, copy_to_state
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.step import BatchGradientRunner, Step
from simplepcfg.training.step.update import Gradients, learning_rate_groups
from step_checks import (
    SIZES,
    WORDS,
    FakeCapturer,
    largest_difference,
    make_step,
    mixed_batches,
    run_steps,
    tiny_model,
    weights,
)


class FailingCapturer:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        raise self._error


def test_captured_steps_are_the_same_as_plain_ones() -> None:
    batches = mixed_batches(30)
    plain, replayed = tiny_model(), tiny_model()
    expected = run_steps(make_step(plain), batches)
    capturer = FakeCapturer()
    step = make_step(replayed, capturer=capturer, captured_shapes=8)
    found = run_steps(step, batches)
    assert largest_difference(weights(plain), weights(replayed)) < 1e-6
    assert found == pytest.approx(expected, rel=1e-5)
    assert capturer.captured > 5  # shapes, and the update
    assert largest_difference(weights(plain), weights(tiny_model())) > 1e-2


def test_cache_is_bounded_and_forgets_what_was_used_longest_ago() -> None:
    capturer, ran = FakeCapturer(), []
    runner = BatchGradientRunner(lambda words, *_: ran.append(words), torch.device("cpu"), capturer, limit=2)

    def run(n: int) -> bool:
        return runner(torch.full((3, n), n), torch.full((3,), n), 3)

    assert [run(n) for n in (2, 2, 2, 3, 3, 2, 4, 4)] == [False, True, True, False, True, True, False, True]
    assert [n for _, n, _ in runner.shapes] == [2, 4]
    assert [run(3), run(3)] == [False, True]  # it must come twice again
    assert [n for _, n, _ in runner.shapes] == [4, 3]
    assert capturer.captured == 4
    assert [tuple(words.shape) for words in ran] == [(3, n) for n in (2, 2, 2, 3, 3, 2, 4, 4, 3, 3)]
    assert all((words == words.shape[1]).all() for words in ran)


def test_mixed_lengths_and_other_divisors_are_not_replayed() -> None:
    runner = BatchGradientRunner(lambda *_: None, torch.device("cpu"), FakeCapturer(), limit=8)
    words, equal = torch.ones(2, 3, dtype=torch.int64), torch.tensor([3, 3])
    assert [runner(words, torch.tensor([3, 2]), 2) for _ in range(3)] == [False] * 3
    assert [runner(words, equal, 2) for _ in range(2)] == [False, True]
    assert [runner(words, equal, 5) for _ in range(2)] == [False, True]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("operation not permitted when capturing\nand more"), "operation not permitted when capturing"),
        (RuntimeError("CUDA out of memory. Tried to"), "too little memory"),
        (ResourceError("the chart needs 100 GB"), "too little memory"),
    ],
)
def test_what_cannot_be_captured_is_said_once_and_launched(error: Exception, reason: str) -> None:
    notes: list[str] = []
    model = tiny_model()
    step = make_step(model, capturer=FailingCapturer(error), captured_shapes=8, note=notes.append)
    batches = mixed_batches(12)
    run_steps(step, batches)
    assert notes == [f"steps are not captured but launched one by one: {reason}"]
    plain = tiny_model()
    run_steps(make_step(plain), batches)
    assert largest_difference(weights(plain), weights(model)) < 1e-6


def poison(monkeypatch: pytest.MonkeyPatch, calls: set[int], loss_too: bool) -> None:
    original, count = SimpleNPCFG.loss, iter(range(10**6))

    def loss(self, words, lengths=None):
        value = original(self, words, lengths)
        if next(count) in calls:
            value.register_hook(lambda gradient: gradient * math.nan)
            value = value * math.nan if loss_too else value
        return value

    monkeypatch.setattr(SimpleNPCFG, "loss", loss)


@pytest.mark.parametrize("loss_too", [False, True])
@pytest.mark.parametrize("on_device", [False, True])
def test_nonfinite_steps_are_skipped_and_counted(monkeypatch, on_device: bool, loss_too: bool) -> None:
    batches = mixed_batches(8)
    clean = tiny_model()
    run_steps(make_step(clean), [batch for number, batch in enumerate(batches) if number not in {2, 3, 6}])
    poison(monkeypatch, {2, 3, 6}, loss_too)
    model = tiny_model()
    step = make_step(model, **({"capturer": FakeCapturer(), "captured_shapes": 8} if on_device else {}))
    state = TrainingState()
    counters = copy_to_state(run_steps(step, batches), state)
    assert largest_difference(weights(clean), weights(model)) < 1e-6
    assert (state.skipped_steps, state.skipped_in_a_row, state.this_epoch.steps) == (3, 0, 5)
    assert counters["longest_in_a_row"] == 2
    assert {float(value["step"]) for value in step.optimizer.state.values()} == {5.0}


def test_only_impossible_sentences_move_nothing() -> None:
    model = tiny_model()
    before = weights(model)
    step = make_step(model, capturer=FakeCapturer(), captured_shapes=8)
    state = TrainingState()
    loss = torch.full((3,), math.inf)
    assert step.counters.count(loss, None, 4, 3).tolist() == [0, 0, 0]
    step.update(0.1)
    copy_to_state(step.counters.read(), state)
    assert (state.skipped_steps, state.impossible_sentences, state.this_epoch.sentences) == (1, 3, 0)
    assert largest_difference(before, weights(model)) == 0


@pytest.mark.parametrize(("loss", "skipped"), [(-0.3, 0), (-0.7, 1), (-1e9, 1)])
def test_sentences_more_probable_than_one_move_nothing(loss: float, skipped: int) -> None:
    """A little is rounding; more than 0.05 nats a token is a defect, which training would exploit."""
    model = tiny_model()
    before = weights(model)
    step = make_step(model, capturer=FakeCapturer(), captured_shapes=8)
    step.gradients.flat.fill_(1.0)
    losses = torch.full((3,), loss)
    step.counters.count(losses, None, 10, 3)  # 11 tokens each
    step.update(0.1)
    state = TrainingState()
    copy_to_state(step.counters.read(), state)
    assert state.skipped_steps == skipped
    assert (largest_difference(before, weights(model)) == 0) is bool(skipped)


def test_counters_by_hand() -> None:
    counters = StepCounters(torch.device("cpu"), end=1)
    losses = torch.tensor([2.0, math.inf, 3.0])
    assert counters.count(losses, torch.tensor([2, 4, 3]), 4, 4).tolist() == [0.25, 0, 0.25]
    assert counters.batch.tolist() == [5.0, 3 + 4, 2, 1, 0, 0]
    assert counters.add(torch.tensor(7.0)) == 0
    assert counters.read_delayed() is None
    counters.count(losses[:1], None, 4, 1)
    assert counters.add(torch.tensor(math.inf)) == 1
    state = TrainingState()
    copy_to_state(counters.read_delayed() or [], state)  # as of the first step
    assert (state.since_log.loss, state.since_log.tokens, state.since_log.gradient_norm) == (5.0, 7, 7.0)
    assert (state.skipped_steps, state.impossible_sentences) == (0, 1)
    copy_to_state(counters.read(), state)
    assert (state.skipped_steps, state.skipped_in_a_row, state.this_epoch.steps) == (1, 1, 1)
    counters.reset_since_log()
    assert counters.read_delayed() is None
    copy_to_state(counters.read(), state)
    assert (state.since_log.loss, state.this_epoch.loss) == (0.0, 5.0)
    other = StepCounters(torch.device("cpu"), end=1)
    other.load(state)
    assert other.read()[:13] == [*counters.read()[:10], 1, 1, 1]


def test_flat_gradients_are_views_of_one_buffer() -> None:
    parameters = [torch.nn.Parameter(torch.randn(3, 5)), torch.nn.Parameter(torch.randn(70))]
    gradients = Gradients(parameters, flat=True)
    assert gradients.flat is not None
    gradients.store([torch.full((3, 5), 2.0), None])
    assert gradients.flat.sum() == 30
    gradients.store([None, torch.ones(70)])
    assert (parameters[0].grad.abs().sum(), gradients.flat.sum()) == (0, 70)
    gradients.clear()
    assert gradients.flat.sum() == 0
    assert parameters[1].grad.untyped_storage().data_ptr() == gradients.flat.untyped_storage().data_ptr()


@pytest.mark.parametrize("config", MODELS, ids=lambda config: config.kind)
def test_a_step_is_adams(config: type) -> None:
    """Whatever shape in memory a model's gradients have: torch's fused Adam takes them all for contiguous."""
    one, other = (tiny_model_of(config(), WORDS) for _ in range(2))
    (batch,) = mixed_batches(1)
    torch.manual_seed(5)  # of z
    make_step(one)(batch, len(batch), 0.01)
    torch.manual_seed(5)
    other.loss(batch.words, batch.lengths).mean().backward()  # type: ignore[operator]
    torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)
    torch.optim.AdamW(other.parameters(), lr=0.01, betas=(0.75, 0.999), weight_decay=0.0).step()
    for (name, mine), theirs in zip(one.named_parameters(), other.parameters(), strict=True):
        far = (mine - theirs).abs() > 1e-4
        # Adam makes whole steps of the rounding errors of a gradient that is 0.
        assert theirs.grad is None or not (far & (theirs.grad.abs() > 1e-6)).any(), name


def test_learning_rate_follows_a_restored_optimiser() -> None:
    model = tiny_model()
    step = make_step(model, capturer=FakeCapturer(), captured_shapes=8)
    run_steps(step, mixed_batches(4))
    step.optimizer.load_state_dict(step.optimizer.state_dict())
    step.update.reset()
    before = weights(model)
    run_steps(step, mixed_batches(3), rate=lambda number: 0.0)
    assert largest_difference(before, weights(model)) == 0


@pytest.mark.parametrize("capturer", [None, FakeCapturer()])
def test_networks_take_their_share_of_the_learning_rate(capturer: FakeCapturer | None) -> None:
    """Adam's first step moves every weight that has a gradient by the learning rate."""
    model = tiny_model(sizes=replace(SIZES, rms_norm=True))
    before = weights(model)
    step = Step(model, TrainingConfig(network_lr_multiplier=0.25), 1, Group(), capturer=capturer)
    run_steps(step, mixed_batches(1), rate=lambda number: 0.01)
    for name, now in weights(model).items():
        expected = 0.01 * (0.25 if "." in name and not name.endswith("gains") else 1.0)
        assert float((now - before[name]).abs().max()) == pytest.approx(expected, rel=1e-3), name


def test_an_encoder_takes_the_whole_rate() -> None:
    """It makes no rules, and nothing in it leaps."""
    model = SimpleCPCFG(SimpleCPCFGConfig(nonterminals=3, preterminals=4, embedding=8, latent=2, encoder=4), 12)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    whole, part = (
        {names[id(parameter)] for parameter in group.parameters}
        for group in learning_rate_groups(model, network_lr_multiplier=0.1)
    )
    assert {name for name in names.values() if name.startswith("encoder.")} <= whole
    assert part
    assert all("." in name for name in part)


def test_a_table_of_scores_takes_the_whole_rate() -> None:
    """Each row of such a linear layer belongs to what it scores, as a row of embeddings does."""
    model = tiny_model_of(NPCFGConfig(), 12)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    _, part = (
        {names[id(parameter)] for parameter in group.parameters}
        for group in learning_rate_groups(model, network_lr_multiplier=0.1)
    )
    assert {name.partition(".")[0] for name in part} == {"root", "emission"}


@pytest.mark.parametrize("capturer", [None, FakeCapturer()], ids=["host", "device"])
def test_weights_shrink_by_their_decay(capturer: FakeCapturer | None) -> None:
    """By rate · decay of themselves besides Adam's step, whatever the gradient."""
    plain, shrinking = tiny_model(), tiny_model()
    before = weights(plain)
    for model, decay in ((plain, 0.0), (shrinking, 0.5)):
        step = Step(model, TrainingConfig(weight_decay=decay), 1, Group(), capturer=capturer)
        run_steps(step, mixed_batches(1), rate=lambda number: 0.01)
    for name, now in weights(shrinking).items():
        torch.testing.assert_close(now, weights(plain)[name] - 0.01 * 0.5 * before[name])


def test_a_model_without_a_choice_of_precision_trains_in_float32() -> None:
    model = torch.nn.Linear(2, 2)
    for precision in ("auto", "fp32"):
        set_precision(model, precision, torch.device("cuda"))
    with pytest.raises(InputError, match=r"precision = bf16: this model has no choice of precision; use fp32"):
        set_precision(model, "bf16", torch.device("cuda"))
