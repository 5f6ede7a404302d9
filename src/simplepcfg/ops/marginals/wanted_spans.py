"""Checked indices of the spans that a caller asks for."""

from torch import Tensor

from simplepcfg.errors import InputError


def flat_cells(spans: Tensor, batch: int, n: int) -> Tensor:
    """Return the index of each (sentence, start, end) in a flattened [B, n + 1, n + 1], or raise InputError."""
    if spans.dim() != 2 or spans.shape[1] != 3 or spans.dtype.is_floating_point:
        raise InputError(f"spans has shape {list(spans.shape)}; it must be [K, 3] integers: sentence, start, end")
    sentence, start, end = spans.long().unbind(1)
    bad = (sentence < 0) | (sentence >= batch) | (start < 0) | (end > n) | (end - start < 2)
    if bool(bad.any()):
        k = int(bad.nonzero()[0])
        raise InputError(
            f"spans[{k}] = {spans[k].tolist()}; take sentence < {batch}, 0 <= start, start + 2 <= end <= {n}"
        )
    return (sentence * (n + 1) + start) * (n + 1) + end
