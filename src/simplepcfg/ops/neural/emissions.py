"""Emission log-probabilities from features: a softmax over all words, evaluated at the words of a batch."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autograd_context import Context, differentiable_gradients, requires_graph
from simplepcfg.ops.backends import has_triton
from simplepcfg.ops.neural.batch_words import (
    ROUNDING,
    add_occurrences,
    by_linked_words,
    by_word_logits,
    clear_words,
    columns_left_out,
    normalise_words,
    word_links,
)
from simplepcfg.ops.neural.exponentials import exponentials_of_product
from simplepcfg.ops.neural.naive import naive_emission_log_probabilities, naive_log_normaliser
from simplepcfg.ops.neural.softmax import softmax_of_product
from simplepcfg.ops.products import (
    add_mm_wide,
    aligned_rows,
    check_precision,
    matrix_mode,
    mm_wide,
    power_of_two,
    row_parts,
    runs_fused,
    wide_type,
)

# Probabilities of all words up to KEPT_BYTES are kept for the backward pass, which otherwise recomputes them in parts
# of RECOMPUTED_BYTES.
KEPT_BYTES = 512 << 20
RECOMPUTED_BYTES = 128 << 20


def log_normaliser(features: Tensor, embeddings: Tensor, *, precision: str | None = None) -> Tensor:
    """Compute log Σ_w exp(features[T] · embeddings[w]) of each preterminal T, [P], from ``[P, D]`` and ``[V, D]``.

    ``precision`` is that of ``rule_probabilities``. Raises InputError if a shape or the precision is wrong.

    >>> log_normaliser(torch.zeros(2, 3), torch.zeros(4, 3)).exp()
    tensor([4., 4.])
    """
    _check(features, embeddings, precision)
    # Whether a backward pass will follow, which the forward of an autograd function cannot find out, is given to it.
    settings = precision, runs_fused(precision, features), requires_graph(features, embeddings)
    return _LogNormaliser.apply(features, embeddings, *settings)


def emission_log_probabilities(
    features: Tensor, embeddings: Tensor, rows: Tensor, *, precision: str | None = None
) -> Tensor:
    """Compute the log-probability that each preterminal emits the given words, normalised over all words: ``[..., P]``.

    ``features`` are ``[P, D]``, or ``[B, P, D]`` if they depend on the sentence, and ``embeddings`` ``[V, D]``; logits
    are their products. ``rows``, int64 ``[...]`` or ``[B, ...]``, are the rows of the words in ``embeddings``.
    ``precision`` is that of ``rule_probabilities``. Raises InputError if a shape or the precision is wrong.

    The normaliser and the logits of the words are computed from the same rounded operands. If they were rounded
    differently, the probabilities of all words could sum to more than 1, and training would exploit it. Shapes do not
    depend on the values of ``rows``, so that a captured CUDA graph serves every batch of the same shape.

    >>> emission_log_probabilities(torch.zeros(2, 3), torch.zeros(4, 3), torch.tensor([0, 3])).exp()
    tensor([[0.2500, 0.2500],
            [0.2500, 0.2500]])
    """
    own = features.dim() == 3
    _check(features.flatten(0, -2) if own else features, embeddings, precision)
    if own and rows.shape[:1] != features.shape[:1]:
        raise InputError(
            f"rows have shape {list(rows.shape)} and features {list(features.shape)}; they must begin with the same B"
        )
    settings = precision, runs_fused(precision, features), requires_graph(features, embeddings)
    log_probabilities = _EmissionLogProbabilities.apply(features, embeddings, rows.flatten(1 if own else 0), *settings)
    return log_probabilities.view(*rows.shape, features.shape[-2])


class _LogNormaliser(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, features: Tensor, embeddings: Tensor, precision: str | None, fused: bool, backward: bool
    ) -> Tensor:
        log_sums, saved = _normalise(features, embeddings, precision, fused, backward)
        ctx.save_for_backward(features, embeddings, *saved)
        ctx.precision, ctx.fused = precision, fused
        return log_sums

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        given, saved = ctx.saved_tensors[:2], ctx.saved_tensors[2:]
        if torch.is_grad_enabled():
            needs = ctx.needs_input_grad[:2]
            return *differentiable_gradients(naive_log_normaliser, given, needs, grads), None, None, None
        expected, scales, by_embeddings = _gradients(_Normalised(*saved), grads[0], ctx.precision, ctx.fused)
        by_features = expected.mul_(scales.unsqueeze(-1))
        return by_features.to(given[0].dtype), by_embeddings.to(given[1].dtype), None, None, None


class _EmissionLogProbabilities(torch.autograd.Function):
    """Emission log-probabilities for rows [W] and features [P, D], or rows [B, W] and features [B, P, D]."""

    @staticmethod
    def forward(
        ctx: Context,
        features: Tensor,
        embeddings: Tensor,
        rows: Tensor,
        precision: str | None,
        fused: bool,
        backward: bool,
    ) -> Tensor:
        rows = rows.contiguous()
        logits = features.new_empty(*rows.shape, features.shape[-2], dtype=wide_type(features.dtype))
        words = None if fused else _WordLogits(rows, logits)
        left_out = columns_left_out(rows, len(embeddings)) if fused and rows.dim() == 1 else None
        log_sums, saved = _normalise(features.flatten(0, -2), embeddings, precision, fused, backward, words, left_out)
        picked = saved.embeddings.index_select(0, rows.flatten()).view(*rows.shape, -1)  # [..., W, D]
        if fused:
            mm_wide(picked, saved.features.view(features.shape).transpose(-1, -2), logits)
            normalise_words(logits, log_sums, saved.exponentials if left_out is None else None, rows)
        else:
            logits.sub_(log_sums.view(features.shape[:-1]).unsqueeze(-2))
            if saved.exponentials is not None:
                clear_words(saved.exponentials, rows, slice(0, len(saved.exponentials)), features.shape[-2])
        ctx.save_for_backward(features, embeddings, rows, logits, log_sums, picked, *saved)
        ctx.precision, ctx.fused = precision, fused
        return logits

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        features, embeddings, rows, log_probabilities, log_sums, picked, *saved = ctx.saved_tensors
        if torch.is_grad_enabled():
            gradients = differentiable_gradients(
                lambda f, e: naive_emission_log_probabilities(f, e, rows),
                (features, embeddings),
                ctx.needs_input_grad[:2],
                grads,
            )
            return *gradients, None, None, None, None
        by_log_sums = grads[0].sum(-2).neg_()  # one number for each row of the features
        rounding = ROUNDING if ctx.fused else 0.0
        given = (grads[0], log_probabilities, log_sums.view(by_log_sums.shape), by_log_sums, rounding, picked.dtype)
        # By kernels on a GPU, where index_add_ sums in no fixed order.
        links = word_links(rows) if features.is_cuda and has_triton() else None
        narrow = by_word_logits(rows, len(embeddings), *given) if links is None else by_linked_words(links, *given)
        expected, scales, by_embeddings = _gradients(
            _Normalised(*saved), by_log_sums.flatten(), ctx.precision, ctx.fused, rows
        )
        by_features = torch.empty_like(expected).view(features.shape)
        by_rows = torch.empty_like(picked, dtype=by_embeddings.dtype)
        with matrix_mode(ctx.precision, features.device):
            mm_wide(narrow.transpose(-1, -2), picked, by_features)
            mm_wide(narrow, saved[0].view(features.shape), by_rows)
        result = torch.empty_like(features, memory_format=torch.contiguous_format)
        _scale_rows(expected, scales, result.view_as(expected), ctx.fused, by_features.view_as(expected))
        flat, by_rows = rows.flatten(), by_rows.flatten(0, -2)
        if links is None:
            by_embeddings.index_add_(0, flat, by_rows)
        else:  # sentences with features of their own share the embeddings
            add_occurrences(by_embeddings, by_rows, flat, links if rows.dim() == 1 else word_links(flat))
        return result, by_embeddings.to(embeddings.dtype), None, None, None, None


class _WordLogits:
    """A callback that copies the logits of a batch's words from those of all words, some rows at a time.

    A separate product for these words could round its operands differently: libraries choose by the size of a product.
    """

    def __init__(self, rows: Tensor, out: Tensor) -> None:
        self._rows = rows if rows.dim() == 2 else rows[None]  # [B, W]
        self._out = out.view(*self._rows.shape, -1)  # [B, W, P]

    def __call__(self, logits: Tensor, part: slice) -> None:
        """Copy from ``logits`` [rows, V], which are those of the rows ``part`` of [B · P]."""
        tags = self._out.shape[-1]
        for sentence in range(part.start // tags, -(-part.stop // tags)):
            start, stop = (min(max(end - sentence * tags, 0), tags) for end in (part.start, part.stop))
            here = logits[sentence * tags + start - part.start : sentence * tags + stop - part.start]
            self._out[sentence, :, start:stop] = here.index_select(1, self._rows[sentence]).T


class _Normalised(NamedTuple):
    """What the backward pass of a normaliser needs."""

    features: Tensor  # [P, D] and
    embeddings: Tensor  # [V, D]: the operands of the products
    exponentials: Tensor | None  # [P, V], of all words; None if they are too large
    factors: Tensor | None  # [P]: normalise the exponentials; None if these are normalised already


def _normalise(
    features: Tensor,
    embeddings: Tensor,
    precision: str | None,
    fused: bool,
    backward: bool,
    on_logits: Callable[[Tensor, slice], None] | None = None,
    left_out: Tensor | None = None,
) -> tuple[Tensor, _Normalised]:
    """Compute log Σ_w exp(logit) [P], and what the backward pass needs.

    ``on_logits`` is called with the logits of
    all words, some rows at a time, unless fused kernels are used; they set the exponentials of ``left_out`` to 0.
    """
    kind = torch.bfloat16 if fused else wide_type(features.dtype)
    narrow_features, narrow_embeddings = (each.detach().to(kind).contiguous() for each in (features, embeddings))
    tags, words = features.shape[0], embeddings.shape[0]
    fits = tags * words * kind.itemsize <= KEPT_BYTES
    kept = aligned_rows(features, tags, words, kind) if backward and fits else None
    if fused:
        log_sums, factors = exponentials_of_product(narrow_features, narrow_embeddings, kept, left_out)
        return log_sums, _Normalised(narrow_features, narrow_embeddings, kept, factors)
    log_sums = torch.empty(tags, dtype=wide_type(kind), device=features.device)
    with matrix_mode(precision, features.device):
        softmax_of_product(narrow_features, narrow_embeddings, kept, log_sums, False, on_logits=on_logits)
    return log_sums, _Normalised(narrow_features, narrow_embeddings, kept, None)


def _gradients(
    saved: _Normalised, by_log_sums: Tensor, precision: str | None, fused: bool, rows: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute Σ_w exponential · embedding of each preterminal, its scale, and the gradient of the embeddings.

    ``saved`` is what ``_normalise`` returned for the backward pass. The words ``rows`` of a batch are left out of the
    sums; of exponentials that were kept they have been left out already.

    d log Σ / d logit is an exponential times the factor of its row, and ``by_log_sums`` scales the same rows. Instead
    of the exponentials, the features are scaled here, and the sums by the caller.
    """
    features, embeddings, kept, factors = saved
    (tags, width), words = features.shape, embeddings.shape[0]
    sums = by_log_sums.new_empty(tags, width)
    by_embeddings = by_log_sums.new_empty(words, width)
    scales = by_log_sums if factors is None else by_log_sums * factors
    most = tags if kept is not None else RECOMPUTED_BYTES // (words * features.element_size()) or 1
    parts = row_parts(tags, most, 128)
    buffer = aligned_rows(features, parts[0].stop, words, features.dtype) if kept is None else kept
    left_out = columns_left_out(rows, words) if fused and rows is not None and rows.dim() == 1 else None
    with matrix_mode(precision, features.device):
        for part in parts:
            exponentials = buffer[: part.stop - part.start]
            if kept is None and fused:
                recomputed = exponentials_of_product(features[part], embeddings, exponentials, left_out)
                scales[part] = by_log_sums[part] * recomputed[1]
            elif kept is None:
                softmax_of_product(features[part], embeddings, exponentials, None, False)
            if kept is None and rows is not None and left_out is None:
                clear_words(exponentials, rows, part, tags // len(rows) if rows.dim() == 2 else tags)
            mm_wide(exponentials, embeddings, sums[part])
            weighted = _scale_rows(features[part], scales[part], torch.empty_like(features[part]), fused)
            if part.start:
                add_mm_wide(by_embeddings, exponentials.T, weighted)
            else:
                mm_wide(exponentials.T, weighted, by_embeddings)
    return sums, scales, by_embeddings


def _scale_rows(rows: Tensor, scales: Tensor, out: Tensor, fused: bool, added: Tensor | None = None) -> Tensor:
    """Compute scales[i] · rows[i] (+ added[i]) into ``out``, in float32 or wider; ``out`` may be narrower."""
    if not fused:
        column = scales.unsqueeze(-1)
        return torch.mul(rows, column, out=out) if added is None else torch.addcmul(added, rows, column, out=out)
    from simplepcfg.ops.neural.word_kernels import scale_rows_kernel

    count, width = rows.shape
    scale_rows_kernel[(count,)](
        rows, scales, rows if added is None else added, out, width,
        HAS_ADDED=added is not None, BLOCK=min(1024, power_of_two(width)), num_warps=2,
    )  # fmt: skip
    return out


def _check(features: Tensor, embeddings: Tensor, precision: str | None) -> None:
    check_precision(precision)
    shapes = [tuple(tensor.shape) for tensor in (features, embeddings)]
    if any(len(shape) != 2 or 0 in shape for shape in shapes) or shapes[0][1] != shapes[1][1]:
        raise InputError(
            f"features and embeddings have shapes {list(shapes[0])} and {list(shapes[1])}; they must be [P, D] and "
            "[V, D], none of them 0"
        )
