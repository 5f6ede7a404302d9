"""The precisions of the packed chart: dtypes of storage and sums, and the scaling of rows."""

from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl

from simplepcfg.ops.inside.arguments import InsideArguments


@dataclass(frozen=True, slots=True)
class Precision:
    """Dtypes and scaling of one precision; ``scales`` explains the exponents."""

    stored: torch.dtype  # of the chart and of the operands of matrix products
    work: torch.dtype  # of sums
    tf32: bool
    peak: float  # β is scaled so that no product η ζ exceeds 2^peak
    safe: float  # a row of β whose maximum is below this is recomputed in log space
    limit: float  # derivatives are clamped to ±limit
    head: float  # in backward a sibling is scaled by at most 2^head, so that 2^(peak + head) times n stays in range

    @property
    def triton_work(self) -> Any:
        return tl.float64 if self.work == torch.float64 else tl.float32


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
