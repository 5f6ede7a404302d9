"""Emission probabilities from features: a softmax over all words of which only the batch's words are asked for."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.backends import has_triton
from simplepcfg.ops.double_backward import differentiable_gradients
from simplepcfg.ops.neural.exponentials import powers_of_product
from simplepcfg.ops.neural.naive import naive_emission_log_probabilities, naive_log_normaliser
from simplepcfg.ops.neural.softmax import softmax_of_product
from simplepcfg.ops.products import (
    add_mm_wide,
    aligned_rows,
    check_precision,
    matmul_wide,
    matrix_mode,
    mm_wide,
    row_parts,
    runs_fused,
    wide_type,
)

# Probabilities of all words up to this size are kept for backward; beyond, backward makes them again, part by part.
KEPT_BYTES = 512 << 20
AGAIN_BYTES = 128 << 20
OCCURRENCES_AT_ONCE = 32


def log_normaliser(features: Tensor, embeddings: Tensor, *, precision: str | None = None) -> Tensor:
    """``[P]``: log Σ_w exp(features[T] · embeddings[w]), from ``[P, D]`` and ``[V, D]``.

    >>> log_normaliser(torch.zeros(2, 3), torch.zeros(4, 3)).exp()
    tensor([4., 4.])
    """
    _check(features, embeddings, precision)
    settings = precision, runs_fused(precision, features), _has_backward(features, embeddings)
    return _LogNormaliser.apply(features, embeddings, *settings)


def emission_log_probabilities(
    features: Tensor, embeddings: Tensor, rows: Tensor, *, precision: str | None = None
) -> Tensor:
    """``[..., P]``: log emit[T, w] ∝ features[T] · embeddings[w], normalised over all words, of the words asked for.

    Args:
        features: ``[P, D]``, or ``[B, P, D]`` where each sentence has features of its own; embeddings: ``[V, D]``.
        rows: ``[...]``, or ``[B, ...]``, int64: each word's row of ``embeddings``.
        precision: "bf16" on a GPU stores operands in bfloat16 and sums in float32; see ``rule_probabilities``.

    Normaliser and words are one operation: each gradient is made once, in place, and both are made of the same rounded
    operands. Rounded differently, probabilities would add up to more than one, and training would learn to make them.
    Nothing depends on which words there are but values: a graph captured once serves every batch of its shape.
    """
    own = features.dim() == 3
    _check(features.flatten(0, -2) if own else features, embeddings, precision)
    if own and rows.shape[:1] != features.shape[:1]:
        raise InputError(
            f"rows have shape {list(rows.shape)} and features {list(features.shape)}; they must begin with the same B"
        )
    settings = precision, runs_fused(precision, features), _has_backward(features, embeddings)
    found = _EmissionLogProbabilities.apply(features, embeddings, rows.flatten(1 if own else 0), *settings)
    return found.view(*rows.shape, features.shape[-2])


class _LogNormaliser(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        features, embeddings, precision, fused, backward = inputs
        log_sums, saved = _normalise(features, embeddings, precision, fused, backward)
        ctx.save_for_backward(features, embeddings, *saved)
        ctx.precision, ctx.fused = precision, fused
        return log_sums

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        given, saved = ctx.saved_tensors[:2], ctx.saved_tensors[2:]
        if torch.is_grad_enabled():
            needs = ctx.needs_input_grad[:2]
            return *differentiable_gradients(naive_log_normaliser, given, needs, grads), None, None, None
        expected, scales, by_embeddings = _gradients(saved, grads[0], ctx.precision, ctx.fused)
        by_features = expected.mul_(scales.unsqueeze(-1))
        return by_features.to(given[0].dtype), by_embeddings.to(given[1].dtype), None, None, None


class _EmissionLogProbabilities(torch.autograd.Function):
    """Of rows [W] for features [P, D], or [B, W] for [B, P, D]."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        features, embeddings, rows, precision, fused, backward = inputs
        scores = _wide_empty(features, *rows.shape, features.shape[-2])
        words = None if fused else _WordScores(rows, scores)
        log_sums, saved = _normalise(features.flatten(0, -2), embeddings, precision, fused, backward, words)
        picked = saved[1].index_select(0, rows.flatten()).view(*rows.shape, -1)  # [..., W, D]
        if fused:
            matmul_wide(picked, saved[0].view(features.shape).transpose(-1, -2), scores)
        scores.sub_(log_sums.view(features.shape[:-1]).unsqueeze(-2))
        if fused:  # its two products sum in different orders; where scores are in the millions that shows
            scores.clamp_(max=0.0)
        ctx.save_for_backward(features, embeddings, rows, picked, *saved)
        ctx.precision, ctx.fused = precision, fused
        return scores

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        features, embeddings, rows, picked, *saved = ctx.saved_tensors
        if torch.is_grad_enabled():
            found = differentiable_gradients(
                lambda f, e: naive_emission_log_probabilities(f, e, rows),
                (features, embeddings),
                ctx.needs_input_grad[:2],
                grads,
            )
            return *found, None, None, None, None
        by_log_sums = grads[0].sum(-2).neg_().flatten()  # a number for each row of narrow_features
        narrow = grads[0].to(picked.dtype)
        expected, scales, by_embeddings = _gradients(saved, by_log_sums, ctx.precision, ctx.fused)
        by_features = torch.empty_like(expected).view(features.shape)
        by_rows = torch.empty_like(picked, dtype=by_embeddings.dtype)
        with matrix_mode(ctx.precision, features.device):
            matmul_wide(narrow.transpose(-1, -2), picked, by_features)
            matmul_wide(narrow, saved[0].view(features.shape), by_rows)
        result = torch.empty_like(features, memory_format=torch.contiguous_format)
        _scaled_rows(expected, scales, result.view_as(expected), ctx.fused, by_features.view_as(expected))
        # A GPU's own index_add_ sums in no fixed order.
        by_kernel = features.is_cuda and has_triton()
        _add_occurrences(by_embeddings, by_rows.flatten(0, -2), rows.flatten(), by_kernel=by_kernel)
        return result, by_embeddings.to(embeddings.dtype), None, None, None, None


class _WordScores:
    """Takes the scores of a batch's words from those of all words, as these pass by some rows at a time.

    A product of their own might round its operands otherwise: libraries round within large products, not in small ones.
    """

    def __init__(self, rows: Tensor, out: Tensor) -> None:
        self._rows = rows if rows.dim() == 2 else rows[None]  # [B, W]
        self._out = out.view(*self._rows.shape, -1)  # [B, W, P]

    def __call__(self, scores: Tensor, part: slice) -> None:
        """``scores`` [rows, V] of these rows of [B · P]."""
        tags = self._out.shape[-1]
        for sentence in range(part.start // tags, -(-part.stop // tags)):
            start, stop = (min(max(end - sentence * tags, 0), tags) for end in (part.start, part.stop))
            here = scores[sentence * tags + start - part.start : sentence * tags + stop - part.start]
            self._out[sentence, :, start:stop] = here.index_select(1, self._rows[sentence]).T


def _wide_empty(like: Tensor, *shape: int) -> Tensor:
    return torch.empty(*shape, dtype=wide_type(like.dtype), device=like.device)


def _normalise(
    features: Tensor,
    embeddings: Tensor,
    precision: str | None,
    fused: bool,
    backward: bool,
    seen: Callable[[Tensor, slice], None] | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor | None, Tensor | None]]:
    """log Σ_w exp(score) [P], and for backward: operands, the powers of all words where they are small, their factors.

    A power times its row's factor is the word's probability; without factors the powers are probabilities. ``seen`` is
    shown all scores, some rows at a time; not where kernels are fused.
    """
    kind = torch.bfloat16 if fused else wide_type(features.dtype)
    narrow_features, narrow_embeddings = (each.detach().to(kind).contiguous() for each in (features, embeddings))
    tags, words = features.shape[0], embeddings.shape[0]
    fits = tags * words * kind.itemsize <= KEPT_BYTES
    kept = aligned_rows(features, tags, words, kind) if backward and fits else None
    if fused:
        log_sums, factors = powers_of_product(narrow_features, narrow_embeddings, kept)
        return log_sums, (narrow_features, narrow_embeddings, kept, factors)
    log_sums = torch.empty(tags, dtype=wide_type(kind), device=features.device)
    with matrix_mode(precision, features.device):
        softmax_of_product(narrow_features, narrow_embeddings, kept, log_sums, False, seen=seen)
    return log_sums, (narrow_features, narrow_embeddings, kept, None)


def _gradients(
    saved: Sequence[Any], by_log_sums: Tensor, precision: str | None, fused: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Each preterminal's Σ_w power · e[w], what it is to be multiplied with, and the gradient by the embeddings.

    ``saved`` is what ``_normalise`` gave for backward.

    d log Σ / d score is a power times its row's factor, and ``by_log_sums`` scales the same rows. The features are
    scaled instead, and the sums afterwards (the caller does), so that powers are multiplied as they are.
    """
    features, embeddings, kept, factors = saved
    (tags, width), words = features.shape, embeddings.shape[0]
    sums = by_log_sums.new_empty(tags, width)
    by_embeddings = by_log_sums.new_empty(words, width)
    scales = by_log_sums if factors is None else by_log_sums * factors
    most = tags if kept is not None else AGAIN_BYTES // (words * features.element_size()) or 1
    parts = row_parts(tags, most, 128)
    buffer = aligned_rows(features, parts[0].stop, words, features.dtype) if kept is None else kept
    with matrix_mode(precision, features.device):
        for part in parts:
            powers = buffer[: part.stop - part.start]
            if kept is None and fused:
                scales[part] = by_log_sums[part] * powers_of_product(features[part], embeddings, powers)[1]
            elif kept is None:
                softmax_of_product(features[part], embeddings, powers, None, False)
            mm_wide(powers, embeddings, sums[part])
            weighted = _scaled_rows(features[part], scales[part], torch.empty_like(features[part]), fused)
            if part.start:
                add_mm_wide(by_embeddings, powers.T, weighted)
            else:
                mm_wide(powers.T, weighted, by_embeddings)
    return sums, scales, by_embeddings


def _scaled_rows(rows: Tensor, scales: Tensor, out: Tensor, fused: bool, added: Tensor | None = None) -> Tensor:
    """out = scales[i] · rows[i] (+ added[i]), in float32 at least; out may be narrower."""
    if not fused:
        column = scales.unsqueeze(-1)
        return torch.mul(rows, column, out=out) if added is None else torch.addcmul(added, rows, column, out=out)
    from simplepcfg.ops.neural.word_kernels import scaled_rows_kernel

    count, width = rows.shape
    block = min(1024, 1 << max(width - 1, 1).bit_length())
    scaled_rows_kernel[(count,)](
        rows,
        scales,
        rows if added is None else added,
        out,
        width,
        HAS_ADDED=added is not None,
        BLOCK=block,
        num_warps=2,
    )
    return out


def _has_backward(*tensors: Tensor) -> bool:
    """Asked here because an autograd function's forward never sees gradients enabled."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _add_occurrences(total: Tensor, by_occurrence: Tensor, rows: Tensor, by_kernel: bool) -> None:
    """total[rows[i]] += by_occurrence[i], in a fixed order."""
    if not by_kernel:
        total.index_add_(0, rows, by_occurrence)
        return
    from simplepcfg.ops.neural.word_kernels import add_occurrences_kernel

    count, width = by_occurrence.shape
    block = min(128, 1 << max(width - 1, 1).bit_length())
    add_occurrences_kernel[(count, -(-width // block))](
        total, by_occurrence, rows, count, width, BLOCK_W=OCCURRENCES_AT_ONCE, BLOCK_D=block, num_warps=4
    )


def _check(features: Tensor, embeddings: Tensor, precision: str | None) -> None:
    check_precision(precision)
    shapes = [tuple(tensor.shape) for tensor in (features, embeddings)]
    if any(len(shape) != 2 or 0 in shape for shape in shapes) or shapes[0][1] != shapes[1][1]:
        raise InputError(
            f"features and embeddings have shapes {list(shapes[0])} and {list(shapes[1])}; they must be [P, D] and "
            "[V, D], none of them 0"
        )
