"""The autograd function of the forward algorithm, on a GPU by CUDA graphs that are replayed if shapes recur.

A position takes about fifteen launches, and so do its derivatives. Launching them takes longer than running them, if
the transition matrix is not very large.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.autograd_context import Context, differentiable_gradients
from simplepcfg.ops.forward.arguments import ForwardArguments
from simplepcfg.ops.forward.naive import naive_forward
from simplepcfg.ops.forward.scaled import Alphas, log_sentences, operands, scaled_alphas, scaled_gradients
from simplepcfg.ops.graphs import DeviceGraphs
from simplepcfg.ops.products import wide_type
from simplepcfg.ops.replay import RecurringTensors, Results, replayed, usable_graphs

Factors = tuple[Tensor, ...]
# The work of one position that takes a GPU about as long as its launches take the host.
MOST_BYTES = 4e8
MOST_FLOPS, MOST_FLOPS_NARROW = 4e9, 4e10


def alphas_and_logs(
    arguments: ForwardArguments, factors: Factors, graphs: DeviceGraphs | None
) -> tuple[Alphas, Tensor]:
    """Compute α of all positions and log p of each sentence, [B]; ``factors`` is the result of ``operands``.

    ``graphs`` is the result of ``launch_bound_graphs``.
    """
    if graphs is None:
        alphas = scaled_alphas(arguments, factors)
        return alphas, log_sentences(alphas)
    question = ("forward", arguments.precision)
    given = (arguments.log_emissions, arguments.start, RecurringTensors(factors), lengths_table(arguments))
    log_p, alpha, best, scales, sums, *between = replayed(
        graphs, question, partial(_run_alphas, arguments.precision), given, 3 * _chart_bytes(arguments, factors)
    )
    return Alphas(alpha, best, scales, sums, between[0] if between else None), log_p


def gradients(
    arguments: ForwardArguments, factors: Factors, alphas: Alphas, grad: Tensor, graphs: DeviceGraphs | None
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Compute ``scaled_gradients``; ``graphs`` are those of the forward pass.

    Autograd runs the backward pass in a thread of its own, which does not know whether the caller's thread has switched
    graphs off.
    """
    if graphs is None or not graphs.is_usable:
        return scaled_gradients(arguments, factors, alphas, grad)
    question = ("forward gradients", arguments.precision)
    given = (
        *(arguments.log_emissions, arguments.start, RecurringTensors(factors), lengths_table(arguments), grad),
        *(alphas.alpha, alphas.best, alphas.scales, alphas.sums, alphas.between),
    )
    by_factors = sum(factor.numel() * wide_type(factor.dtype).itemsize for factor in factors)
    room = 4 * _chart_bytes(arguments, factors) + by_factors
    by_emissions, by_start, *by = replayed(graphs, question, partial(_run_gradients, arguments.precision), given, room)
    return by_emissions, by_start, by


def launch_bound_graphs(arguments: ForwardArguments, factors: Factors) -> DeviceGraphs | None:
    """Return the graphs of the device if launching a position takes longer than computing it, about; else None."""
    graphs = usable_graphs(arguments.log_emissions.device)
    if graphs is None:
        return None
    batch = arguments.log_emissions.shape[0]
    flops = 2 * sum(factor.numel() * (1 if factor.dim() == 3 else batch) for factor in factors)
    is_narrow = arguments.precision in ("bf16", "tf32")
    fits = flops <= (MOST_FLOPS_NARROW if is_narrow else MOST_FLOPS)
    return graphs if fits and sum(factor.nbytes for factor in factors) <= MOST_BYTES else None


def lengths_table(arguments: ForwardArguments) -> Tensor | None:
    """Return the lengths in memory from which they can be copied to the device without a wait."""
    lengths = arguments.lengths
    return lengths if lengths is None or not arguments.log_emissions.is_cuda else lengths.pin_memory()


def _run_alphas(
    precision: str | None, log_emissions: Tensor, start: Tensor, factors: Factors, lengths: Tensor | None
) -> tuple[Results, None]:
    given = ForwardArguments(log_emissions, start, factors, lengths, precision, reads_lengths=False)
    alphas = scaled_alphas(given, factors)
    results = (log_sentences(alphas), alphas.alpha, alphas.best, alphas.scales, alphas.sums)
    return results if alphas.between is None else (*results, alphas.between), None


def _run_gradients(
    precision: str | None,
    log_emissions: Tensor,
    start: Tensor,
    factors: Factors,
    lengths: Tensor | None,
    grad: Tensor,
    *alphas: Tensor,
) -> tuple[Results, None]:
    given = ForwardArguments(log_emissions, start, factors, lengths, precision, reads_lengths=False)
    by_emissions, by_start, by_factors = scaled_gradients(given, factors, Alphas(*alphas), grad)
    return (by_emissions, by_start, *by_factors), None


def _chart_bytes(arguments: ForwardArguments, factors: Factors) -> int:
    inner = factors[0].shape[-1] if len(factors) == 2 else 0
    batch, n, states = arguments.log_emissions.shape
    return batch * n * (states + inner) * arguments.log_emissions.element_size()


def scaled_forward(arguments: ForwardArguments) -> Tensor:
    """Compute log p of each sentence, [B]; second derivatives go through ``naive_forward``."""
    tensors = (arguments.log_emissions, arguments.start, *arguments.factors)
    return _Forward.apply(arguments.lengths, arguments.precision, *tensors)


class _Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, lengths: Tensor | None, precision: str | None, *tensors: Tensor) -> Tensor:
        arguments = _arguments(lengths, precision, tensors)
        factors = operands(arguments)
        ctx.graphs = launch_bound_graphs(arguments, factors)
        alphas, log_p = alphas_and_logs(arguments, factors, ctx.graphs)
        extra = () if alphas.between is None else (alphas.between,)
        ctx.save_for_backward(*tensors, *factors, alphas.alpha, alphas.best, alphas.scales, alphas.sums, *extra)
        ctx.settings = lengths, precision, len(factors)
        return log_p

    @staticmethod
    @without_autocast
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        lengths, precision, count = ctx.settings
        tensors, saved = ctx.saved_tensors[: 2 + count], ctx.saved_tensors[2 + count :]
        needs = ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():

            def naive(*given: Tensor) -> Tensor:
                return naive_forward(_arguments(lengths, precision, given))

            return None, None, *differentiable_gradients(naive, tensors, needs, grads)
        factors, (alpha, best, scales, sums, *between) = saved[:count], saved[count:]
        alphas = Alphas(alpha, best, scales, sums, between[0] if between else None)
        by_emissions, by_start, by_factors = gradients(
            _arguments(lengths, precision, tensors), factors, alphas, grads[0], ctx.graphs
        )
        slopes = (by_emissions, by_start, *by_factors)
        return None, None, *(slope.to(given.dtype) for slope, given in zip(slopes, tensors, strict=True))


def _arguments(lengths: Tensor | None, precision: str | None, tensors: Sequence[Tensor]) -> ForwardArguments:
    log_emissions, start, *factors = tensors
    return ForwardArguments(log_emissions, start, tuple(factors), lengths, precision)
