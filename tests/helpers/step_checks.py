"""A tiny model and batches of many shapes, for comparing ways to run the same steps."""

import random
from collections.abc import Callable

import torch

from simplepcfg.data.batching import Batch, collate
from simplepcfg.models import NPCFG, SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.runs.device import set_precision
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.span_prior import branching_prior
from simplepcfg.training.step.step import Step

SIZES = SimpleNPCFGConfig(nonterminals=6, preterminals=10, embedding=16, init_logit_std=1.0)
WORDS = 12


class FakeCapturer:
    """Replays by calling: what a graph does, as far as a CPU can tell."""

    def __init__(self) -> None:
        self.captured = 0

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        self.captured += 1
        return function


def tiny_model(
    device: str = "cpu",
    precision: str = "fp32",
    dtype: torch.dtype = torch.float64,
    sizes: SimpleNPCFGConfig = SIZES,
) -> SimpleNPCFG:
    """In float64 by default: Adam makes whole steps of the rounding errors of a gradient that is 0."""
    torch.manual_seed(3)
    model = SimpleNPCFG(sizes, WORDS).to(device, dtype)
    set_precision(model, precision, torch.device(device))
    return model.train()


def unlikely_pairs(model: NPCFG, score: float) -> None:
    """Give two words as siblings this score, so that a low one takes every sentence out of float32's range."""
    every, tags = len(model.symbols), model.config.preterminals
    with torch.no_grad():
        model.rules.bias.view(every, every)[-tags:, -tags:] = score


def make_step(model: SimpleNPCFG, group: Group | None = None, **choices: object) -> Step:
    settings = TrainingConfig(learning_rate=0.01, clip=1.0)
    return Step(model, settings, 1, group or Group(), **choices)


def mixed_batches(count: int, seed: int = 0, shapes: int = 4) -> list[Batch]:
    """Mostly equal lengths of a few shapes; every fifth batch has sentences of different lengths."""
    rng = random.Random(seed)
    batches = []
    for number in range(count):
        size = rng.choice([3, 4])
        n = rng.randint(2, 1 + shapes)
        lengths = [rng.randint(2, 6) for _ in range(size)] if number % 5 == 4 else [n] * size
        sentences = [[rng.randint(1, WORDS - 1) for _ in range(length)] for length in lengths]
        batches.append(collate(sentences, range(size)))
    return batches


def run_steps(
    step: Step, batches: list[Batch], rate: Callable[[int], float] = lambda number: 0.01, biased: int = 0
) -> list[float]:
    """The first `biased` steps have a branching bias to the right."""
    for number, batch in enumerate(batches):
        prior = branching_prior(0.5, batch.words.shape[1], batch.lengths) if number < biased else None
        step(batch, len(batch), rate(number), prior=prior)
    return step.counters.read()


def weights(model: SimpleNPCFG) -> dict[str, torch.Tensor]:
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def largest_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return max(float((one[name] - other[name]).abs().max()) for name in one)
