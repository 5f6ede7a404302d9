"""The pieces of machinery of a training step that machinery.py measures, and what stands in for each of them.

Every substitute computes the same in plain PyTorch, or is what the library itself does on other devices.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from simplepcfg.models import shared_layers, simple_npcfg
from simplepcfg.ops import capture, deferred_checks
from simplepcfg.ops.inside import inside, packed_chart
from simplepcfg.ops.neural import (
    emissions,
    exponential_kernels,
    exponentials,
    feature_inside,
    residual,
    rules,
    softmax,
    softmax_kernels,
)
from simplepcfg.ops.products import mm_wide
from simplepcfg.training import background_writer
from simplepcfg.training.step.step import BatchGradientRunner, CapturedGradient

Change = tuple[object, str, object]  # an object, the name of its attribute, and the value in its place


@dataclass(frozen=True)
class Piece:
    """One piece of machinery: the code that it costs, and how to do without it."""

    name: str
    code: tuple[object, ...]  # modules, classes and functions that would go
    changes: tuple[Change, ...] = ()
    captured: bool = True  # whether the step without this piece is still captured as a CUDA graph

    def without(self) -> AbstractContextManager[None]:
        """Return a context in which the step runs without this piece."""
        return changed(*self.changes)

    @property
    def lines(self) -> int:
        """Number of lines of its code."""
        return sum(len(inspect.getsource(part).splitlines()) for part in self.code)  # type: ignore[arg-type]


@contextmanager
def changed(*changes: Change) -> Iterator[None]:
    """Replace attributes of modules or classes within this context."""
    with ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


def plain_networks(
    table: Tensor, rows: Sequence[tuple[int, int]], weights: Sequence[Sequence[Tensor]], *, precision: str | None
) -> tuple[Tensor, ...]:
    """Compute ``residual_networks`` in bfloat16 by PyTorch's own layers and autograd."""
    narrow = table.bfloat16()
    outputs = []
    for (start, stop), each in zip(rows, weights, strict=True):
        first, bias, *blocks = (tensor.bfloat16() for tensor in each)
        x = narrow[start:stop]
        y = F.linear(x, first, bias)
        if not blocks:
            y = x + F.relu(y)
        for inner, inner_bias, outer, outer_bias in zip(*(iter(blocks),) * 4, strict=True):
            y = y + F.relu(F.linear(F.relu(F.linear(y, inner, inner_bias)), outer, outer_bias))
        outputs.append(y)
    return tuple(outputs)


def plain_exponentials(
    a: Tensor, b: Tensor, out: Tensor | None, left_out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute ``exponentials_of_product`` with all logits in memory."""
    logits = mm_wide(a, b.T, a.new_empty(len(a), len(b), dtype=torch.float32))
    top = logits.amax(-1, keepdim=True)
    total = logits.sub_(top).exp_().sum(-1)
    if out is not None:
        out.copy_(logits if left_out is None else logits.masked_fill_(left_out > 0, 0.0))
    return top.squeeze(-1) + total.log(), total.reciprocal()


def plain_softmax(logits: Tensor, out: Tensor, least: float) -> None:
    """Compute the softmax of float32 logits into ``out``."""
    out.copy_(logits.softmax(-1).clamp_(min=least))


def plain_softmax_backward(p: Tensor, grad: Tensor, out: Tensor) -> None:
    """Compute the gradient of the logits into ``out``, which may be ``grad`` itself."""
    product = p * grad
    total = product.sum(-1, keepdim=True, dtype=torch.float32)
    torch.sub(product, p * total, out=out)


class WideProduct(torch.autograd.Function):
    """The product a bᵀ of bfloat16 matrices in float32, since logits in bfloat16 would be too coarse."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        ctx.save_for_backward(*inputs)
        a, b = (tensor.detach() for tensor in inputs)
        return mm_wide(a, b.T, a.new_empty(len(a), len(b), dtype=torch.float32))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        a, b = ctx.saved_tensors
        grad = grads[0].bfloat16()
        return grad @ b, grad.T @ a


def rules_then_inside(
    log_emissions: Tensor, root: Tensor, *given: Tensor, precision: str | None, plain: bool, **options: Any
) -> Tensor:
    """Compute ``inside_of_features`` by two operations, so that the gradient of all rules is stored.

    With ``plain`` the rules are softmaxes of products by autograd.
    """
    if plain:
        parents, *children = (tensor.bfloat16() for tensor in given)
        left, right = (softmax.rule_softmax(WideProduct.apply(parents, each)).bfloat16() for each in children)
    else:
        left, right = rules.rule_probabilities(*given, precision=precision)
    return inside(log_emissions, root, left, right, precision=precision, backend="triton", **options)


def write_at_once(self: background_writer.BackgroundWriter, job: Callable[[], None]) -> None:
    """Run a job of the background writer while training waits."""
    job()


STEP_PIECES = (
    Piece(
        "capture of steps as CUDA graphs",
        (capture, deferred_checks, CapturedGradient, BatchGradientRunner),
        captured=False,
    ),
    Piece(
        "exponential kernels, against PyTorch",
        (exponentials, exponential_kernels),
        ((emissions, "exponentials_of_product", plain_exponentials),),
    ),
    Piece(
        "residual networks, against autograd",
        (residual,),
        ((shared_layers, "residual_networks", plain_networks),),
    ),
    Piece(
        "softmax kernels, against PyTorch",
        (softmax_kernels,),
        (
            (softmax, "_fused_softmax", plain_softmax),
            (softmax, "_fused_softmax_backward", plain_softmax_backward),
        ),
    ),
    Piece(
        "gradient of features without that of all rules",
        (feature_inside,),
        ((simple_npcfg, "inside_of_features", partial(rules_then_inside, plain=False)),),
    ),
    Piece(
        "rules with softmax kernels, against autograd",
        (feature_inside, rules, softmax_kernels),
        ((simple_npcfg, "inside_of_features", partial(rules_then_inside, plain=True)),),
    ),
)
WRITER = Piece(
    "background writer of checkpoints",
    (background_writer,),
    ((background_writer.BackgroundWriter, "write", write_at_once),),
)


def interpreted() -> AbstractContextManager[None]:
    """Return a context in which a CPU takes the path of a GPU, for tiny sizes in Triton's interpreter."""

    def fused(precision: str | None, tensor: Tensor) -> bool:
        return precision == "bf16"

    modules = (emissions, residual, rules, feature_inside)
    return changed(*((module, "runs_fused", fused) for module in modules), (packed_chart, "STATES_AT_ONCE", 4))
