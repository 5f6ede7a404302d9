"""What each precision stores, multiplies and sums in, and where its rows lie in the range of their type."""

from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl

from simplepcfg.ops.inside.arguments import InsideArguments


@dataclass(frozen=True, slots=True)
class Precision:
    """The type that is stored and multiplied, the type of sums, and where rows lie in its range (see ``scales``)."""

    stored: torch.dtype
    work: torch.dtype
    tf32: bool
    peak: float
    safe: float
    limit: float
    head: float  # exponent of the largest factor of a sibling in backward: 2^(peak + head), times words, is in range

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
    """What was asked for; float64 emissions mean float64 throughout, and the default is as exact as float32."""
    if arguments.log_emissions.dtype == torch.float64:
        return PRECISIONS["fp64"]
    return PRECISIONS[arguments.precision or "fp32"]
