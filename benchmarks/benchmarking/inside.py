"""Benchmark of speed and memory of the inside algorithm, forward and backward, for every backend."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from benchmarking.peak_memory import peak_on_cpu, peak_on_gpu, release
from benchmarking.sizes import Size, forward_backward
from benchmarking.timing import DTYPES, Machine, Times, captured, matrix_mode, measure
from simplepcfg.errors import InputError, is_out_of_memory
from simplepcfg.ops.inside import without_graphs
from simplepcfg.runs.memory import available_memory

# In the order of the table, the slowest first: relative figures refer to the first one that runs.
PRECISIONS: dict[str, tuple[str, ...]] = {
    "log_sum_exp": ("fp32",),
    "log_einsum_exp": ("fp32", "tf32", "bf16"),
    "torch": ("fp32", "tf32"),
    "triton": ("fp32", "tf32", "bf16"),
}
GPU_ONLY = ("triton",)
BASELINES = ("log_sum_exp", "log_einsum_exp", "torch")  # measured in float32 unless asked otherwise
# The two sizes of grammar and two lengths of the paper's table.
PAPER_SIZES = tuple(Size(16, n, states, 2 * states) for states in (512, 8192) for n in (20, 40))
GPU_SIZES = (*PAPER_SIZES, *(Size(16, n, states, 2 * states) for states in (4096, 32768) for n in (20, 40)))
CPU_SIZES = (Size(4, 20, 128, 256), Size(4, 20, 512, 1024))
QUICK_SIZES = {"cuda": (Size(16, 20, 512, 1024),), "cpu": (Size(4, 10, 64, 128),)}


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant to measure: a backend, its precision, and whether it runs eagerly or as a replayed CUDA graph."""

    backend: str
    precision: str = "fp32"
    mode: str = "eager"

    def __str__(self) -> str:
        return f"{self.backend} {self.precision} {self.mode}"


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the table: times and peak memory, or the reason why there are none."""

    size: Size
    variant: Variant
    floor_ms: float  # time of the matrix products at the rate of one large product
    splits_ms: float  # time of the loads of the split sums at the rate of a copy, without reuse
    times: Times | None = None
    peak_bytes: float | None = None
    failure: str = ""

    @property
    def ratio(self) -> float | None:
        """The measured time divided by ``floor_ms``."""
        return None if self.times is None else self.times.p50 / self.floor_ms


def default_sizes(device: torch.device, quick: bool = False) -> tuple[Size, ...]:
    """Return the default sizes, which take some minutes on a GPU and less than two on a CPU."""
    if quick:
        return QUICK_SIZES[device.type]
    return GPU_SIZES if device.type == "cuda" else CPU_SIZES


def choose_variants(
    device: torch.device, backends: Sequence[str] | None = None, precisions: Sequence[str] | None = None
) -> list[Variant]:
    """Return every requested combination that the device supports, in the order of the table.

    InputError if a name is unknown, or if nothing is left to measure.
    """
    for name in backends or ():
        if name not in PRECISIONS:
            raise InputError(f"backend {name!r} is not measured; take some of {', '.join(PRECISIONS)}")
        if name in GPU_ONLY and device.type != "cuda":
            raise InputError(f"backend {name!r} needs a CUDA GPU; on this device take log_sum_exp,log_einsum_exp,torch")
    for name in precisions or ():
        if name not in DTYPES:
            raise InputError(f"precision {name!r} is unknown; take some of {', '.join(DTYPES)}")
    variants = []
    for backend, possible in PRECISIONS.items():
        if (backends and backend not in backends) or (backend in GPU_ONLY and device.type != "cuda"):
            continue
        if device.type != "cuda":
            possible = ("fp32",)
        elif not precisions and backend in BASELINES:
            possible = possible[:1]  # baselines are measured in float32 only
        for precision in possible:
            if precisions and precision not in precisions:
                continue
            variants.append(Variant(backend, precision))
            if backend == "triton":
                variants.append(Variant(backend, precision, "graph"))
    if not variants:
        raise InputError(
            f"no backend asked for has precision {', '.join(precisions or ())} on {device.type}; leave it out"
        )
    return variants


def benchmark_inside(
    sizes: Sequence[Size],
    variants: Sequence[Variant],
    device: torch.device,
    *,
    repeats: int = 20,
    budget_s: float = 5.0,
    machine: Machine | None = None,
) -> Iterator[Result]:
    """Measure all variants, size by size, and yield a result for each.

    A variant that needs more memory than there is has the failure "OOM". ``budget_s`` bounds the timing of one result.
    InputError if ``repeats`` is less than 1.
    """
    if repeats < 1:
        raise InputError(f"repeats = {repeats}; measure at least once")
    machine = machine or Machine(device)
    for size in sizes:
        for variant in variants:
            yield _measured(bare_result(size, variant, machine), device, repeats, budget_s)


def bare_result(size: Size, variant: Variant, machine: Machine) -> Result:
    """Return a result with the lower bounds only."""
    floor = 1000 * size.flops / machine.flops_per_second(variant.precision)
    itemsize = DTYPES[variant.precision].itemsize
    return Result(size, variant, floor, 1000 * size.split_bytes(itemsize) / machine.bytes_per_second)


def _measured(result: Result, device: torch.device, repeats: int, budget_s: float) -> Result:
    size, variant = result.size, result.variant
    release()
    # On a GPU, allocations that are too large fail safely, so the estimate is used with a margin of two. On a CPU the
    # machine would swap, or the process would be killed.
    margin = 0.5 if device.type == "cuda" else 1.0
    free = available_memory(device)
    if free is not None and margin * size.memory(variant.backend, variant.precision) > free:
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
    with without_graphs():  # "eager" is launched kernel by kernel
        step()  # compiles kernels, and allocates the workspaces of libraries
        peak = peak_on_gpu(step)
        if variant.mode == "graph":
            release()
            step = captured(step)
        return measure(step, device, repeats, budget_s), peak
