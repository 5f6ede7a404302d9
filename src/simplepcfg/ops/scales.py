"""Exact scaling of rows by powers of two, which keeps probabilities within the floating-point range."""

from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments

# The exponent of a row of zeros. Exponents are whole numbers, for which 2^x is exact. This one is finite, so that no
# difference of two exponents is NaN, and far below the exponent of any other row.
DEAD = -1e30


@dataclass(frozen=True, slots=True)
class Range:
    """The use of the exponent range of a floating-point dtype."""

    # η and ζ are stored with their maximum in [2^(peak-1), 2^peak), which leaves more room for small values below. The
    # backward pass computes marginal / (η ζ), about 2^(-2 peak), which must stay above the smallest normal number.
    peak: int
    shift: int  # no row is scaled by more than 2^shift
    low: float  # only a row whose maximum is smaller may need that limit
    # A split sum whose maximum is smaller than this is recomputed in log space: states that matter may have
    # underflowed.
    safe: float
    huge: float  # a derivative with respect to a value of 0 is kept up to this magnitude

    @property
    def beta_peak(self) -> int:
        """The exponent of the maximum of β, which is a sum of products of two rows."""
        return 2 * self.peak


_RANGES = {
    torch.float32: Range(peak=32, shift=126, low=2.0**-90, safe=1.0, huge=2.0**100),
    torch.float64: Range(peak=256, shift=1022, low=2.0**-700, safe=1.0, huge=2.0**900),
}


def range_of(dtype: torch.dtype) -> Range:
    """Return the range of float32 or float64."""
    return _RANGES[dtype]


def shift_to_peak(maxima: Tensor, limits: Range, limit_shift: bool) -> Tensor:
    """Return the exponents by which rows with these maxima are scaled, so that the maxima are near 2^peak.

    ``limit_shift`` is needed if some maximum is below ``limits.low``: rows of zeros then have exponent 0, and others at
    most ``limits.shift``, for which 2^shift does not overflow.
    """
    shift = limits.peak - maxima.log2().ceil_()
    return shift.masked_fill_(maxima == 0, 0.0).clamp_(max=limits.shift) if limit_shift else shift


def drop_out_of_range(derivative: Tensor, value: Tensor, limits: Range) -> Tensor:
    """Set derivatives with respect to values of 0 to 0 if they are not moderate, and clamp all others.

    The derivative with respect to a positive value is a marginal divided by that value, which is in range, or at its
    limit if the value is subnormal. The derivative with respect to a value of 0 has no such bound. It is kept if it is
    moderate. Otherwise it would lead to 0 · ∞ = NaN, and no probability depends on it.
    """
    limit = torch.finfo(derivative.dtype).max
    derivative = derivative.nan_to_num(0.0, posinf=limit, neginf=-limit)
    return derivative.masked_fill_((value == 0) & (derivative.abs() > limits.huge), 0.0)


@dataclass(frozen=True, slots=True)
class Precision:
    """Dtypes and scaling of the packed chart, which Triton kernels fill, in one precision."""

    stored: torch.dtype  # of the chart and of the operands of matrix products
    work: torch.dtype  # of sums
    tf32: bool
    peak: float  # β is scaled so that no product η ζ exceeds 2^peak
    safe: float  # a row of β whose maximum is below this is recomputed in log space
    limit: float  # derivatives are clamped to ±limit
    head: float  # in backward a sibling is scaled by at most 2^head, so that 2^(peak + head) times n stays in range


_FLOAT32 = {"peak": 64.0, "safe": 1.0, "limit": 2.0**126, "head": 48.0}
PRECISIONS = {
    "bf16": Precision(torch.bfloat16, torch.float32, False, **_FLOAT32),
    "tf32": Precision(torch.float32, torch.float32, True, **_FLOAT32),
    "fp32": Precision(torch.float32, torch.float32, False, **_FLOAT32),
    "fp64": Precision(torch.float64, torch.float64, False, peak=256.0, safe=1.0, limit=2.0**1022, head=700.0),
}


def precision_of(arguments: InsideArguments) -> Precision:
    """Return the precision that was asked for: "fp32" by default, and float64 throughout for float64 emissions."""
    if arguments.log_emissions.dtype == torch.float64:
        return PRECISIONS["fp64"]
    return PRECISIONS[arguments.precision or "fp32"]
