"""How far a backend lies from float64 on the stress set, and how far it may.

What is compared is log Z and expected counts, the gradients by log-emissions and by log-rules (gradient × rule): these
are free of the scale that a rule happens to have. The yardstick is `log_einsum_exp` at the same precision.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from simplepcfg.ops.inside import inside, log_space, span_marginals
from stress_grammars import Stress

PARTS = ("emissions", "root", "left", "right")
# Between neighbours at 1, of the numbers that are multiplied.
SPACING = {"fp32": 2.0**-23, "tf32": 2.0**-10, "bf16": 2.0**-7}
# Of span marginals' sums and of counts' sums, relatively.
IDENTITY = {"fp64": 1e-10, "fp32": 1e-4, "tf32": 1e-2, "bf16": 4e-2}


@dataclass(frozen=True)
class Answer:
    """What a backend says of a case, in float64."""

    log_z: Tensor  # [B]
    counts: dict[str, Tensor]
    marginals: Tensor | None  # [B, n + 1, n + 1]


@dataclass(frozen=True)
class Errors:
    """Distance from the truth: of log Z in nats a word, of counts as the relative norm of the difference."""

    log_z: float
    counts: dict[str, float]

    def items(self) -> Iterator[tuple[str, float]]:
        yield "log Z", self.log_z
        yield from self.counts.items()


@contextmanager
def tf32_operands(wanted: bool) -> Iterator[None]:
    """The yardstick's operands rounded to TF32's ten bits by hand: a GPU multiplies small batches exactly instead."""
    if not wanted:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_space.LogEinsumExp, "operand", lambda self, values: _rounded_to_tf32(values))
        yield


def _rounded_to_tf32(values: Tensor) -> Tensor:
    """To the nearest number of ten bits; its derivative is that of the number itself."""
    bits = values.detach().contiguous().view(torch.int32)
    nearest = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
    return values + (nearest - values.detach())


def leaves_of(stress: Stress, precision: str, rules: torch.dtype | None = None) -> tuple[Tensor, ...]:
    """The case's tensors in the type that goes with a precision, the rules' in another where one is given."""
    dtype = torch.float64 if precision == "fp64" else torch.float32
    dtypes = (dtype, dtype, rules or dtype, rules or dtype)
    pairs = zip(stress.case.tensors(), dtypes, strict=True)
    return tuple(tensor.detach().to(kind).requires_grad_() for tensor, kind in pairs)


def options_of(stress: Stress, backend: str, precision: str) -> dict[str, object]:
    """Keyword arguments of ``inside``; float64 it sees by itself."""
    device = stress.case.root.device
    lengths = None if stress.lengths is None else torch.tensor(stress.lengths, device=device)
    return {"lengths": lengths, "precision": None if precision == "fp64" else precision, "backend": backend}


def answer(
    stress: Stress, backend: str, precision: str, *, marginals: bool = True, rules: torch.dtype | None = None
) -> Answer:
    """Forward and backward of every sentence, the impossible ones included, and the marginals separately."""
    leaves = leaves_of(stress, precision, rules)
    options = options_of(stress, backend, precision)
    with tf32_operands(precision == "tf32" and backend == "log_einsum_exp"):
        log_z = inside(*leaves, **options)  # type: ignore[arg-type]
        grads = torch.autograd.grad(log_z.sum(), leaves)
        spans = span_marginals(*leaves, **options)[1] if marginals else None  # type: ignore[arg-type]
    weights = (torch.ones_like(leaves[0]), *(leaf.detach() for leaf in leaves[1:]))
    counts = {
        part: torch.where(weight == 0, 0.0, grad.double() * weight.double())
        for part, grad, weight in zip(PARTS, grads, weights, strict=True)
    }
    return Answer(log_z.detach().double(), counts, None if spans is None else spans.double())


def errors(found: Answer, truth: Answer, lengths: Tensor) -> Errors:
    """Whatever is not finite is infinitely far, but two log Z of -inf agree."""
    off = ((found.log_z - truth.log_z) / lengths).masked_fill(found.log_z == truth.log_z, 0.0)
    counts = {
        part: float((found.counts[part] - true).norm() / true.norm().clamp(min=1e-300))
        for part, true in truth.counts.items()
    }
    pairs = {"log Z": float(off.square().mean().sqrt()), **counts}
    finite = {name: value if math.isfinite(value) else math.inf for name, value in pairs.items()}
    return Errors(finite.pop("log Z"), finite)


def pooled(several: list[Errors]) -> Errors:
    """Root mean squares over the draws of a case."""

    def mean(values: list[float]) -> float:
        return math.sqrt(sum(value * value for value in values) / len(values))

    return Errors(
        mean([each.log_z for each in several]), {part: mean([each.counts[part] for each in several]) for part in PARTS}
    )


@dataclass(frozen=True)
class Allowance:
    """How far a backend may lie from float64, given how far the yardstick does: ``factor`` times as far, and floors.

    The floors are for where the yardstick happens to err by next to nothing. A rounding errs by spacing / √12 in the
    mean square. A count is a stored number times a stored derivative: two roundings, spacing / √6. In TF32 these are
    made by every product between it and the root: two a level, spacing · √(levels / 6), and a tree of n words has
    log2 n levels at least. (In the yardstick, whose derivatives are marginals, they cancel where there is but one
    tree, and its bf16 rounds results too.) A word adds two to log Z, its own and its β's; over n words they average to
    spacing / √6n a word. Log Z itself is returned as one float32, half of whose spacing is 2^-24 of its size.
    """

    factor: float
    count: float
    word: float
    averages: bool
    by_level: bool = False

    @staticmethod
    def of(precision: str) -> "Allowance":
        """Float64 is its own truth, to about the spacing of a log Z of a few thousand."""
        if precision == "fp64":
            return Allowance(0.0, 1e-12, 1e-12, False)
        floor = SPACING[precision] / math.sqrt(6)
        return Allowance(2.0, floor, floor, True, by_level=precision == "tf32")

    @staticmethod
    def truncating(precision: str) -> "Allowance":
        """Triton's interpreter cuts bf16 off where a GPU rounds: it errs by spacing / √3, and always downwards.

        So a word's two cuts, of half a spacing each, add up instead of averaging. Measured over the interpreted set:
        log Z low by up to 5.5e-3 nats a word, counts off by up to 3.2 times what the yardstick's are.
        """
        if precision != "bf16":
            return Allowance.of(precision)
        return Allowance(4.0, SPACING["bf16"] / math.sqrt(3), SPACING["bf16"], False)

    def bounds(self, yardstick: Errors, lengths: Tensor, log_z: Tensor) -> Errors:
        size = float((log_z / lengths).masked_fill(log_z == -math.inf, 0.0).abs().amax())
        word = self.word / math.sqrt(float(lengths.amin())) if self.averages else self.word
        levels = max(1.0, math.log2(float(lengths.amin()))) if self.by_level else 1.0
        count = self.count * math.sqrt(levels)
        return Errors(
            self.factor * yardstick.log_z + word + (2.0**-24 * size if self.factor else 0.0),
            {part: self.factor * yardstick.counts[part] + count for part in PARTS},
        )


def identity_errors(found: Answer, lengths: Tensor) -> dict[str, float]:
    """How far sums are, relatively, from what they are for any grammar: n - 1 spans, 3n - 1 counts in their parts."""
    possible = found.log_z > -math.inf
    if not bool(possible.any()):
        return {}
    lengths = lengths[possible]
    words = found.counts["emissions"][possible].abs().sum((1, 2))
    sums = {part: float(found.counts[part].abs().sum()) for part in ("root", "left", "right")}
    rules, sentences = float((lengths - 1).sum()), float(possible.sum())
    off = {
        "emissions": float((words / lengths - 1).abs().amax()),
        "root": abs(sums["root"] / sentences - 1),
        "left": abs(sums["left"] / rules - 1),
        "right": abs(sums["right"] / rules - 1),
    }
    if found.marginals is not None:
        spans = found.marginals[possible].sum((1, 2))
        off["spans"] = float((spans / (lengths - 1) - 1).abs().amax())
    return off


def complaints(
    draws: list[Stress], backend: str, precision: str, allowance: Allowance, *, marginals: bool = True
) -> list[str]:
    """What is wrong with a backend on a case, in words; nothing, it is to be hoped."""
    found, expected, said = [], [], []
    for stress in draws:
        lengths = stress.sentence_lengths()
        truth = answer(stress, "log_einsum_exp", "fp64", marginals=False)
        ours = answer(stress, backend, precision, marginals=marginals)
        found.append(errors(ours, truth, lengths))
        expected.append(errors(answer(stress, "log_einsum_exp", precision, marginals=False), truth, lengths))
        for part, off in identity_errors(ours, lengths).items():
            if not off <= IDENTITY[precision]:
                said.append(f"{part} sum to {off:.1e} beside what they must, {IDENTITY[precision]:.0e} allowed")
        impossible = truth.log_z == -math.inf
        if bool((ours.log_z[impossible] != -math.inf).any()) or bool(ours.counts["emissions"][impossible].any()):
            said.append("an impossible sentence has a probability or a gradient")
    ours, theirs = pooled(found), pooled(expected)
    bounds = dict(allowance.bounds(theirs, lengths, truth.log_z).items())
    measured = dict(theirs.items())
    for part, value in ours.items():
        if not value <= bounds[part]:
            said.append(f"{part} is {value:.1e} off, the yardstick {measured[part]:.1e}, {bounds[part]:.1e} allowed")
    return said
