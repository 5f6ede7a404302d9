"""Exact scaling by powers of two: where the chart's rows lie in the range of their type."""

from dataclasses import dataclass

import torch
from torch import Tensor

# Exponents are whole numbers in the working type, where 2^x is exact. This one marks a row that is zero: finite, so
# that no difference of two is NaN, and far below any real one.
DEAD = -1e30


@dataclass(frozen=True, slots=True)
class Range:
    """How a floating-point type's exponents are used."""

    # η and ζ are stored with their maximum in [2^(peak-1), 2^peak), so that the upper half of the range is put to use;
    # backward forms marginal / (η ζ), about 2^(-2 peak), which must stay well above the smallest normal number.
    peak: int
    shift: int  # no row is scaled by more than 2^shift
    low: float  # a row whose maximum is smaller may need that limit
    # A split sum whose maximum is smaller than this reaches less far down than numbers of at most 1 would, the range
    # that log space has: states that matter may be lost.
    safe: float
    huge: float  # a derivative by a value of 0 is kept up to here

    @property
    def beta_peak(self) -> int:
        """Where β lies: it sums products of two rows at their peaks."""
        return 2 * self.peak


_RANGES = {
    torch.float32: Range(peak=32, shift=126, low=2.0**-90, safe=1.0, huge=2.0**100),
    torch.float64: Range(peak=256, shift=1022, low=2.0**-700, safe=1.0, huge=2.0**900),
}


def range_of(dtype: torch.dtype) -> Range:
    """The range of a working dtype."""
    return _RANGES[dtype]


def shift_to_peak(maxima: Tensor, limits: Range, careful: bool) -> Tensor:
    """The exponents that bring rows with these maxima to their place in the range.

    ``careful``, where some maximum is below ``limits.low``: 0 for rows of zeros, and never so much that 2^shift itself
    leaves the range; a row that starts very low then ends a little lower than the others.
    """
    shift = limits.peak - maxima.log2().ceil_()
    return shift.masked_fill_(maxima == 0, 0.0).clamp_(max=limits.shift) if careful else shift


def drop_out_of_range(derivative: Tensor, value: Tensor, limits: Range) -> Tensor:
    """Zero the derivatives by values of 0 that lie beyond the range: no probability flows through them.

    A derivative by a positive value is a marginal divided by that value, hence in range, or at its limit where the
    value is below the smallest normal number. One by a value of 0 has no such bound; it is exact while it is moderate,
    and where it is not it would turn 0 · ∞ into NaN further on.
    """
    limit = torch.finfo(derivative.dtype).max
    derivative = derivative.nan_to_num(0.0, posinf=limit, neginf=-limit)
    return derivative.masked_fill_((value == 0) & (derivative.abs() > limits.huge), 0.0)
