"""The update of a GPU, here and there: it moves weights, average and counters as Adam does in float64 on a CPU."""

import math

import pytest
import torch
from torch import nn

from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.counters import COUNTERS, StepCounters
from simplepcfg.training.step.ema import WeightEMA
from simplepcfg.training.step.update import DeviceUpdate, Gradients, HostUpdate, LearningRateGroup
from step_checks import FakeCapturer

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
BETAS = (0.75, 1 - 2.0**-10)  # in float32 on a GPU torch computes 1 - beta2 of a rounded beta2, and this one is exact


class Side:
    """Some weights with an update of one kind; both kinds see the same gradients."""

    def __init__(
        self,
        on_host: bool,
        decay: float = 0.9,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        **settings: float,
    ) -> None:
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(70, 61), nn.Linear(3, 2, bias=False)).to(device, dtype)
        self.ema = WeightEMA(self.model, decay)
        parameters = list(self.model.parameters())
        self.gradients = Gradients(parameters, flat=True)
        self.counters = StepCounters(torch.device(device), 1)
        groups = [LearningRateGroup(parameters[:1], 1.0), LearningRateGroup(parameters[1:], 0.25)]
        config = TrainingConfig(**{"betas": BETAS, "weight_decay": 0.1, **settings})
        if on_host:
            self.update = HostUpdate(config, groups, self.gradients, self.counters, self.ema)
        else:
            self.update = DeviceUpdate(config, groups, self.gradients, self.counters, FakeCapturer(), self.ema)

    def step(self, number: int, size: float, loss: float = 3.0, flags: tuple[float, float, float] = (0, 0, 0)) -> None:
        """Flags are of the batch: impossible sentences, a wish to stop, a failure."""
        generator = torch.Generator().manual_seed(number)
        for weight in self.gradients.parameters:
            weight.grad.copy_(size * torch.randn(weight.shape, generator=generator))
        self.counters.count(torch.tensor([loss, 2.0], device=self.counters.device), None, 5, 2)
        self.counters.batch[3:].copy_(torch.tensor(flags))
        self.update(0.01 / (1 + number), self.ema.weight_at(number))

    def weights(self) -> list[torch.Tensor]:
        held = self.update.optimizer.state
        moments = [held[weight][name] for weight in self.gradients.parameters for name in ("exp_avg", "exp_avg_sq")]
        return [*self.gradients.parameters, *moments, *self.ema.state().values()]

    def assert_weights_like(self, other: "Side") -> None:
        for mine, theirs in zip(self.weights(), other.weights(), strict=True):
            torch.testing.assert_close(mine.double().cpu(), theirs.double(), rtol=2e-6, atol=1e-8)

    def assert_like(self, other: "Side") -> None:
        self.assert_weights_like(other)
        assert self.counters.read() == pytest.approx(other.counters.read(), rel=1e-6)
        counts = [{float(held["step"]) for held in side.update.optimizer.state.values()} for side in (self, other)]
        assert counts[0] == counts[1]


def captured_and_true(decay: float = 0.9, device: str = "cpu", **settings: float) -> tuple[Side, Side]:
    """The update of a GPU in float32, and that of a CPU in float64."""
    return Side(False, decay, device, **settings), Side(True, decay, dtype=torch.float64, **settings)


def counters(side: Side) -> dict[str, float]:
    return dict(zip(COUNTERS, side.counters.read()[-len(COUNTERS) :], strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("decay", [0.0, 0.9])
@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_moves_as_adam_does(clip: float, decay: float, device: str) -> None:
    sides = captured_and_true(decay, device, clip=clip)
    before = [weight.detach().clone() for weight in sides[0].gradients.parameters]
    for number in range(6):
        for side in sides:
            side.step(number, size=0.001 if number % 2 else 0.1)  # below the clip, and above
    sides[0].assert_like(sides[1])
    assert all(not torch.equal(*pair) for pair in zip(before, sides[0].gradients.parameters, strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [math.nan, math.inf])
def test_nothing_but_the_average_moves_on_what_is_not_finite(size: float, device: str) -> None:
    sides = captured_and_true(device=device)
    for side in sides:
        side.step(0, 0.1)
        side.step(1, size)
        side.step(2, size)
        side.step(3, 0.1, loss=math.nan)
        side.step(4, 0.1)
        side.step(5, 0.1, loss=-9.0)  # more probable than 1
    assert counters(sides[0])["skipped_steps"] == 4
    values = [side.counters.read() for side in sides]
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    sides[0].assert_weights_like(sides[1])


@pytest.mark.parametrize("device", DEVICES)
def test_counts_what_a_batch_says_of_itself(device: str) -> None:
    sides = captured_and_true(device=device)
    for side in sides:
        side.step(0, 0.1, flags=(3, 0, 0))
        side.step(1, 0.1, flags=(1, 1, 0))
        side.step(2, 0.1, flags=(0, 0, 1))  # a process failed: nothing moves
        side.step(3, 0.1, flags=(2, 1, 0))
    counted = counters(sides[0])
    assert (counted["skipped_steps"], counted["impossible_sentences"]) == (1, 6)
    assert (counted["stop"], counted["failed"]) == (2, 1)
    sides[0].assert_like(sides[1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("losses", [[2.0, math.inf, 3.0], [2.5], [math.inf] * 2, [1.0, math.nan]])
def test_a_batch_is_counted(losses: list[float], given: bool, dtype: torch.dtype, device: str) -> None:
    lengths = [4, 2, 3][: len(losses)] if given else [5] * len(losses)
    counters = StepCounters(torch.device(device), end=1)
    counters.set_flags(stop=True, failed=True)
    given_lengths = torch.tensor(lengths) if given else None
    weights = counters.count(torch.tensor(losses, dtype=dtype, device=device), given_lengths, 5, 7)
    kept = [(loss, length + 1) for loss, length in zip(losses, lengths, strict=True) if loss != math.inf]
    loss, tokens = (sum(column) for column in zip((0, 0), *kept, strict=True))
    expected = [loss, tokens, len(kept), len(losses) - len(kept), 1, 1]
    assert counters.batch.tolist() == pytest.approx(expected, nan_ok=True)
    assert weights.dtype == dtype
    assert weights.tolist() == pytest.approx([0.0 if loss == math.inf else 1 / 7 for loss in losses])


def copied(state: dict[int, dict[str, torch.Tensor]]) -> dict[int, dict[str, torch.Tensor]]:
    """As a checkpoint has it: every tensor alone."""
    return {number: {name: value.clone() for name, value in held.items()} for number, held in state.items()}


def test_goes_on_from_moments_of_another_kind() -> None:
    sides = [Side(on_host) for on_host in (False, True)]
    for side in sides:
        side.step(0, 0.1)
    held = [copied(side.update.optimizer.state_dict()["state"]) for side in sides]
    for side, others in zip(sides, reversed(held), strict=True):
        groups = side.update.optimizer.state_dict()["param_groups"]
        side.update.optimizer.load_state_dict({"state": others, "param_groups": groups})
        side.update.reset()
    for number in (1, 2):
        for side in sides:
            side.step(number, 0.1)
    sides[0].assert_like(sides[1])
