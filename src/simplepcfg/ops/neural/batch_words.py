"""The words of a batch in the emissions: their log-probabilities, and the gradients of their logits and embeddings.

A word may occur at several positions. On a GPU its positions are linked, so that sums over them have a fixed order.
"""

import torch
from torch import Tensor

from simplepcfg.ops.products import power_of_two

# Positions that are looked through at once, and columns of a matrix of words that a program sums.
POSITIONS_AT_ONCE = 256
COLUMNS_AT_ONCE = 1024
# With fused kernels a word's log-probability is the difference of its logit and the normaliser, two products that sum
# in different orders. They differ by rounding errors, at most about 2⁻¹⁷ of their size: two sums of 512 products, 16 at
# a time, each rounded to 24 bits. Where a preterminal is certain of its word nothing else is left. Where the difference
# is within ROUNDING · (4 + |normaliser|), the backward pass takes the probability for 1. Otherwise such an error would
# be a gradient that makes the logit larger, never smaller, because a positive log-probability is set to 0; and the
# larger the logit, the larger the error.
ROUNDING = 2.0**-16


def columns_left_out(rows: Tensor, vocabulary: int) -> Tensor:
    """Return int8 [V] with 1 for the words of a batch, whose exponentials the backward pass leaves out."""
    return torch.zeros(vocabulary, dtype=torch.int8, device=rows.device).scatter_(0, rows, 1)


def clear_words(exponentials: Tensor, rows: Tensor, part: slice, tags: int) -> None:
    """Set the exponentials of the batch's words to 0, since the backward pass treats these words on their own.

    ``exponentials`` [n, V] are those of the rows ``part`` of [P], with ``rows`` [W] for all; or of [B · P], with
    ``rows`` [B, W], a sentence's own.
    """
    if rows.dim() == 2:
        rows = rows[torch.arange(part.start, part.stop, device=rows.device) // tags]
    exponentials.scatter_(1, rows.expand(len(exponentials), -1), 0.0)


def normalise_words(logits: Tensor, log_sums: Tensor, exponentials: Tensor | None, rows: Tensor) -> None:
    """Turn the logits of a batch's words into log-probabilities of at most 0; clear ``exponentials``, if given."""
    from simplepcfg.ops.neural.word_kernels import word_log_probabilities_kernel

    words, tags = logits.shape[-2:]
    block = _columns(tags)
    word_log_probabilities_kernel[(words, -(-tags // block), logits.shape[:-2].numel())](
        logits, log_sums, logits if exponentials is None else exponentials, rows, words, tags,
        0 if exponentials is None else exponentials.stride(0), CLEARS=exponentials is not None, BLOCK=block,
    )  # fmt: skip


def by_word_logits(
    rows: Tensor,
    vocabulary: int,
    grad: Tensor,
    log_probabilities: Tensor,
    log_sums: Tensor,
    by_log_sums: Tensor,
    rounding: float,
    kind: torch.dtype,
) -> Tensor:
    """Compute the gradient of the logits of a batch's words, [..., W, P], at the first position of each word; else 0.

    It is Σ grad over a word's positions − (Σ grad over all words) · p. Where a preterminal emits this word alone the
    two cancel, and its features are large. So they are subtracted here before they are rounded to ``kind``: if each
    were rounded and multiplied by the features on its own, what is left would be a gradient that is not there, and
    training would follow it. ``rounding`` is that of the log-probabilities, relative to their normaliser.
    """
    positions = torch.arange(rows.shape[-1], device=rows.device).expand_as(rows)
    firsts = torch.full((*rows.shape[:-1], vocabulary), rows.shape[-1], device=rows.device)
    first = firsts.scatter_reduce_(-1, rows, positions, "amin").gather(-1, rows)
    offsets = torch.arange(0, rows.numel(), rows.shape[-1], device=rows.device).view(*rows.shape[:-1], 1)
    sums = torch.zeros_like(grad, memory_format=torch.contiguous_format)
    sums.flatten(0, -2).index_add_(0, (first + offsets).flatten(), grad.flatten(0, -2))
    is_certain = log_probabilities >= -rounding * (4 + log_sums.abs().unsqueeze(-2))
    sums.addcmul_(log_probabilities.masked_fill(is_certain, 0.0).exp(), by_log_sums.unsqueeze(-2))
    return sums.mul_((first == positions).unsqueeze(-1)).to(kind)


def by_linked_words(
    links: tuple[Tensor, Tensor],
    grad: Tensor,
    log_probabilities: Tensor,
    log_sums: Tensor,
    by_log_sums: Tensor,
    rounding: float,
    kind: torch.dtype,
) -> Tensor:
    """Compute the same as ``by_word_logits`` by a kernel, which sums in a fixed order."""
    from simplepcfg.ops.neural.word_kernels import word_logit_gradients_kernel

    words, tags = grad.shape[-2:]
    block = _columns(tags)
    out = torch.empty_like(grad, dtype=kind, memory_format=torch.contiguous_format)
    word_logit_gradients_kernel[(words, -(-tags // block), grad.shape[:-2].numel())](
        grad.contiguous(), log_probabilities, log_sums, by_log_sums, *links, out, words, tags,
        ROUNDING=rounding, BLOCK=block,
    )  # fmt: skip
    return out


def word_links(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether each position is the first of its word, and the next position of the word, as int32."""
    from simplepcfg.ops.neural.word_kernels import word_links_kernel

    words = rows.shape[-1]
    firsts, links = torch.empty((2, *rows.shape), dtype=torch.int32, device=rows.device)
    word_links_kernel[(words, rows.shape[:-1].numel())](rows, firsts, links, words, BLOCK=POSITIONS_AT_ONCE)
    return firsts, links


def _columns(count: int) -> int:
    return min(COLUMNS_AT_ONCE, power_of_two(count))


def add_occurrences(total: Tensor, by_occurrence: Tensor, rows: Tensor, links: tuple[Tensor, Tensor]) -> None:
    """Add by_occurrence[i] to total[rows[i]] for every position i, in the order of the ``links`` of ``rows``."""
    from simplepcfg.ops.neural.word_kernels import add_occurrences_kernel

    words, width = by_occurrence.shape
    block = _columns(width)
    add_occurrences_kernel[(words, -(-width // block))](total, by_occurrence, rows, *links, words, width, BLOCK=block)
