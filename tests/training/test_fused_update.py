"""The GPU's update, on a CPU by the same kernels: it moves weights, average and tally as Adam does in float64."""

import math

import pytest
import torch
from torch import nn

from simplepcfg.ops.update import count_batch, fused
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.counters import StepCounters
from simplepcfg.training.step.ema import WeightEMA
from simplepcfg.training.step.fused_update import FusedUpdate
from simplepcfg.training.step.gradients import Gradients
from simplepcfg.training.step.update import DeviceUpdate, LearningRateGroup

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


class Side:
    """Some weights with an update of one kind; both kinds see the same gradients."""

    def __init__(
        self,
        kind: type,
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
        config = TrainingConfig(**{"betas": (0.75, 0.999), "weight_decay": 0.1, **settings})
        self.update = kind(config, groups, self.gradients, self.counters, None, self.ema)

    def step(self, number: int, size: float, loss: float = 3.0, flags: tuple[float, float, float] = (0, 0, 0)) -> None:
        """Flags are of the batch: impossible sentences, a wish to stop, a failure."""
        generator = torch.Generator().manual_seed(number)
        self.gradients.flat.copy_(size * torch.randn(self.gradients.flat.shape, generator=generator))
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


def fused_and_true(decay: float = 0.9, device: str = "cpu", **settings: float) -> tuple[Side, Side]:
    """The kernels, and torch's Adam in float64: in float32 on a GPU it takes 1 - beta2 of a rounded beta2."""
    truth = Side(DeviceUpdate, decay, dtype=torch.float64, **settings)
    return Side(FusedUpdate, decay, device, **settings), truth


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that parameters have several stretches, the last of them short, and an interpreter little to do."""
    monkeypatch.setattr(fused, "BLOCK", 512)
    monkeypatch.setattr(fused, "PARTS", 8)
    monkeypatch.setattr(fused, "SQUARES_AT_ONCE", 256)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("decay", [0.0, 0.9])
@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_moves_as_adam_does(clip: float, decay: float, device: str) -> None:
    sides = fused_and_true(decay, device, clip=clip)
    before = [weight.detach().clone() for weight in sides[0].gradients.parameters]
    for number in range(6):
        for side in sides:
            side.step(number, size=0.001 if number % 2 else 0.1)  # below the clip, and above
    sides[0].assert_like(sides[1])
    assert all(not torch.equal(*pair) for pair in zip(before, sides[0].gradients.parameters, strict=True))


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # the interpreter's, about NaN
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [math.nan, math.inf])
def test_nothing_but_the_average_moves_on_what_is_not_finite(size: float, device: str) -> None:
    sides = fused_and_true(device=device)
    for side in sides:
        side.step(0, 0.1)
        side.step(1, size)
        side.step(2, size)
        side.step(3, 0.1, loss=math.nan)
        side.step(4, 0.1)
        side.step(5, 0.1, loss=-9.0)  # more probable than 1
    assert sides[0].counters.read()[10] == 4
    found = [side.counters.read() for side in sides]
    found[0][14] = found[1][14] = 0.0  # the last norm
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    sides[0].assert_weights_like(sides[1])


@pytest.mark.parametrize("device", DEVICES)
def test_counts_what_a_batch_says_of_itself(device: str) -> None:
    sides = fused_and_true(device=device)
    for side in sides:
        side.step(0, 0.1, flags=(3, 0, 0))
        side.step(1, 0.1, flags=(1, 1, 0))
        side.step(2, 0.1, flags=(0, 0, 1))  # a process failed: nothing moves
        side.step(3, 0.1, flags=(2, 1, 0))
    counted = sides[0].counters.read()[10:]
    assert (counted[0], counted[3], counted[5:]) == (1.0, 6.0, [2.0, 1.0])
    sides[0].assert_like(sides[1])


LOSSES = {"some": [2.0, math.inf, 3.0], "one": [2.5], "none possible": [math.inf] * 2, "nan": [1.0, math.nan]}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_is_counted_as_torch_counts_it(name: str, given: bool, dtype: torch.dtype, device: str) -> None:
    losses = torch.tensor(LOSSES[name], dtype=dtype)
    lengths = torch.tensor([4, 2, 3][: len(losses)]) if given else None
    counters = StepCounters(torch.device("cpu"), end=1)
    expected = counters.count(losses, lengths, 4, 7)
    batch = torch.full((6,), 9.0, dtype=torch.float64, device=device)
    found = count_batch(losses.to(device), None if lengths is None else lengths.to(device), 4, 1, 7, batch)
    torch.testing.assert_close(found.cpu(), expected)
    torch.testing.assert_close(batch[:4].cpu(), counters.batch[:4], equal_nan=True)
    assert batch[4:].tolist() == [9.0, 9.0]


def copied(state: dict[int, dict[str, torch.Tensor]]) -> dict[int, dict[str, torch.Tensor]]:
    """As a checkpoint has it: every tensor alone."""
    return {number: {name: value.clone() for name, value in held.items()} for number, held in state.items()}


def test_goes_on_from_moments_of_another_kind() -> None:
    sides = [Side(kind) for kind in (FusedUpdate, DeviceUpdate)]
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
