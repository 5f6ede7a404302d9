"""Checked arguments of the forward algorithm."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import check_lengths, check_probabilities, check_rule_shape, check_word_shape
from simplepcfg.ops.products import check_precision

# The transition matrix, or two factors whose product it is.
Transitions = Tensor | tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class ForwardArguments:
    """Checked arguments of the forward algorithm; ``lengths`` is None if every sentence has n words."""

    log_emissions: Tensor  # [B, n, S]
    start: Tensor  # [S] or [B, S]
    factors: tuple[Tensor, ...]  # [S, S], or [S, r] and [r, S]; each may have a leading B
    lengths: Tensor | None  # [B] int64, on the CPU
    precision: str | None

    @property
    def active(self) -> Callable[[int], Tensor | None]:
        """A function from a position to a mask of the sentences that have a word there, [B, 1]; None if all have."""
        if self.lengths is None:
            return lambda position: None
        shortest = int(self.lengths.min())
        on_device = self.lengths.to(self.log_emissions.device)[:, None]
        return lambda position: None if position < shortest else on_device > position


def check_arguments(
    log_emissions: Tensor,
    start: Tensor,
    transitions: Transitions,
    lengths: Tensor | None = None,
    precision: str | None = None,
) -> ForwardArguments:
    """Check shapes and values of the arguments of ``forward``, and convert to one floating-point dtype.

    InputError names what is wrong.
    """
    batch, n, states = check_word_shape(log_emissions, "S")
    factors = (transitions,) if isinstance(transitions, Tensor) else tuple(transitions)
    if len(factors) not in (1, 2):
        raise InputError(f"transitions are {len(factors)} tensors; give one [S, S], or two: [S, r] and [r, S]")
    inner = factors[0].shape[-1] if factors[0].dim() else 0
    tails = [(states, states)] if len(factors) == 1 else [(states, inner), (inner, states)]
    named = [("start", start, (states,)), *(("transitions", f, tail) for f, tail in zip(factors, tails, strict=True))]
    for name, tensor, tail in named:
        check_rule_shape(name, tensor, tail, batch, f"B = {batch} and S = {states}")
        check_probabilities(name, tensor)
    if len({factor.dim() for factor in factors}) > 1:
        raise InputError("both factors of the transitions must have a batch dimension, or neither")
    check_precision(precision)
    dtype = torch.promote_types(log_emissions.dtype, torch.float32)
    narrow = log_emissions.is_cuda and dtype != torch.float64
    return ForwardArguments(
        log_emissions.to(dtype),
        start.to(dtype),
        # bfloat16 rules on a GPU are read by the matrix products as they are.
        tuple(f if narrow and f.dtype == torch.bfloat16 else f.to(dtype) for f in factors),
        check_lengths(lengths, batch, n),
        precision,
    )
