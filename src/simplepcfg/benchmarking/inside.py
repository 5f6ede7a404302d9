"""Speed and memory of the inside algorithm, forward and backward, for every backend that the machine can run."""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from simplepcfg.benchmarking.memory import available_memory, is_out_of_memory, peak_on_cpu, peak_on_gpu, release
from simplepcfg.benchmarking.sizes import Size
from simplepcfg.benchmarking.timing import DTYPES, Machine, Times, captured, matrix_mode, measure
from simplepcfg.benchmarking.workload import forward_backward
from simplepcfg.errors import InputError

# In the order of the table, the slowest first: what is relative is so to the first that runs.
PRECISIONS: dict[str, tuple[str, ...]] = {
    "log_sum_exp": ("fp32",),
    "log_einsum_exp": ("fp32", "tf32", "bf16"),
    "paper": ("fp32", "tf32"),
    "paper_recompute": ("fp32", "tf32"),
    "torch": ("fp32", "tf32"),
    "triton": ("fp32", "tf32", "bf16"),
}
CARD_ONLY = ("paper", "paper_recompute", "triton")
# The paper's table: its two sizes of grammar and two lengths; then others.
PAPER_SIZES = tuple(Size(16, n, states, 2 * states) for states in (512, 8192) for n in (20, 40))
CARD_SIZES = (*PAPER_SIZES, *(Size(16, n, states, 2 * states) for states in (4096, 32768) for n in (20, 40)))
CPU_SIZES = (Size(4, 20, 128, 256), Size(4, 20, 512, 1024))
QUICK_SIZES = {"cuda": (Size(16, 20, 512, 1024),), "cpu": (Size(4, 10, 64, 128),)}


@dataclass(frozen=True, slots=True)
class Variant:
    """What is measured: a backend, its precision, and whether it is launched step by step or replayed as a graph."""

    backend: str
    precision: str = "fp32"
    mode: str = "eager"

    def __str__(self) -> str:
        return f"{self.backend} {self.precision} {self.mode}"


@dataclass(frozen=True, slots=True)
class Result:
    """A row: times and peak, or why there are none."""

    size: Size
    variant: Variant
    floor_ms: float  # the matrix products at the rate of one large product
    splits_ms: float  # the split sums at the rate of a copy, when no load serves two spans
    times: Times | None = None
    peak_bytes: float | None = None
    failure: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times the floor it takes."""
        return None if self.times is None else self.times.p50 / self.floor_ms


def default_sizes(device: torch.device, quick: bool = False) -> tuple[Size, ...]:
    """What is measured unless something else is asked for: minutes on a GPU, less than two on a CPU."""
    if quick:
        return QUICK_SIZES[device.type]
    return CARD_SIZES if device.type == "cuda" else CPU_SIZES


def choose_variants(
    device: torch.device, backends: Sequence[str] | None = None, precisions: Sequence[str] | None = None
) -> list[Variant]:
    """Every combination that was asked for and exists here, in the order of the table."""
    for name in backends or ():
        if name not in PRECISIONS:
            raise InputError(f"backend {name!r} is not measured; take some of {', '.join(PRECISIONS)}")
        if name in CARD_ONLY and device.type != "cuda":
            raise InputError(f"backend {name!r} needs a CUDA GPU; on this device take log_sum_exp,log_einsum_exp,torch")
    for name in precisions or ():
        if name not in DTYPES:
            raise InputError(f"precision {name!r} is unknown; take some of {', '.join(DTYPES)}")
    found = []
    for backend, possible in PRECISIONS.items():
        if (backends and backend not in backends) or (backend in CARD_ONLY and device.type != "cuda"):
            continue
        if device.type != "cuda":
            possible = ("fp32",)
        elif not precisions and not backend.startswith(("paper", "triton")):
            possible = possible[:1]  # the baselines are what they are in float32
        for precision in possible:
            if precisions and precision not in precisions:
                continue
            found.append(Variant(backend, precision))
            if backend == "triton":
                found.append(Variant(backend, precision, "graph"))
    if not found:
        raise InputError(
            f"no backend asked for has precision {', '.join(precisions or ())} on {device.type}; leave it out"
        )
    return found


def benchmark_inside(
    sizes: Sequence[Size],
    variants: Sequence[Variant],
    device: torch.device,
    *,
    repeats: int = 20,
    budget_s: float = 5.0,
    stop_after_s: float | None = None,
    keep_going: bool = False,
    machine: Machine | None = None,
) -> Iterator[Result]:
    """Results one by one, size by size. A variant too large for the memory at hand gives a result that says so.

    ``budget_s`` bounds the timing of one result; past ``stop_after_s`` what is left is not measured. Where
    ``keep_going``, a variant that fails for another reason than memory is a result too, named by its error.
    """
    if repeats < 1:
        raise InputError(f"repeats = {repeats}; measure at least once")
    machine = machine or Machine(device)
    began = time.monotonic()
    for size in sizes:
        for variant in variants:
            late = stop_after_s is not None and time.monotonic() - began > stop_after_s
            result = _bare_result(size, variant, machine)
            if late:
                yield replace(result, failure="no time")
                continue
            try:
                yield _measured(result, device, repeats, budget_s)
            except Exception as error:
                if not keep_going:
                    raise
                traceback.print_exc()
                yield replace(result, failure=type(error).__name__)


def _bare_result(size: Size, variant: Variant, machine: Machine) -> Result:
    """A result with nothing but the floor."""
    floor = 1000 * size.flops / machine.flops_per_second(variant.precision)
    itemsize = DTYPES[variant.precision].itemsize
    return Result(size, variant, floor, 1000 * size.split_bytes(itemsize) / machine.bytes_per_second)


def _measured(result: Result, device: torch.device, repeats: int, budget_s: float) -> Result:
    size, variant = result.size, result.variant
    release()
    # A GPU says itself when it is full, so only what is hopeless is not tried; a CPU would swap, or be killed.
    doubt = 0.5 if device.type == "cuda" else 1.0
    if doubt * size.memory(variant.backend, variant.precision) > available_memory(device):
        return replace(result, failure="OOM")
    try:
        with matrix_mode(variant.precision):
            run = _on_gpu if device.type == "cuda" else _on_cpu
            times, peak = run(size, variant, device, repeats, budget_s)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return replace(result, failure="OOM")
    finally:
        release()
    return replace(result, times=times, peak_bytes=peak)


def _on_cpu(size: Size, variant: Variant, device: torch.device, repeats: int, budget_s: float) -> tuple[Times, float]:
    peak = peak_on_cpu(size, variant.backend, variant.precision)
    return measure(forward_backward(size, variant.backend, variant.precision, device), device, repeats, budget_s), peak


def _on_gpu(size: Size, variant: Variant, device: torch.device, repeats: int, budget_s: float) -> tuple[Times, float]:
    step: Callable[[], object] = forward_backward(size, variant.backend, variant.precision, device)
    step()  # compiles, and allocates the libraries' workspaces
    peak = peak_on_gpu(step)
    if variant.mode == "graph":
        release()
        step = captured(step)
    return measure(step, device, repeats, budget_s), peak
