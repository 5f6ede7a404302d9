"""Facts about this machine, and whether the inside algorithm is right on it, each with a verdict."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from simplepcfg.ops.inside import inside
from simplepcfg.runs.device import usable_cores
from simplepcfg.runs.memory import available_memory
from simplepcfg.version import __version__

PACKAGES = ("torch", "triton", "numpy", "nltk", "safetensors", "pydantic")
OPTIONAL = ("triton",)
# Backends of the inside algorithm that users meet; those of the paper are for comparison.
ANYWHERE, ON_GPU = ("torch", "log_einsum_exp"), ("triton",)
LEAST_FREE = 2 * 2**30  # bytes of memory and disk below which even small runs are tight
# Sizes of the comparison: odd ones, so that blocks do not divide them.
BATCH, LENGTH, NONTERMINALS, PRETERMINALS = 3, 9, 33, 65
# Share of a GPU's multiprocessors that a process may use beside others; with 30 of 100 on an H200, torch.mm itself
# gave NaN for bfloat16 (torch 2.11, CUDA 13.0).
MPS_SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the examination; `problem` says what to do about it, or is None."""

    name: str
    value: str
    problem: str | None = None


def examine(folder: Path) -> Iterator[Fact]:
    """Yield versions, devices, threads, memory, the disk of `folder`, and how every backend compares with the naive
    form.
    """
    yield from versions()
    yield from machine(folder)
    for device in [torch.device("cpu"), *(torch.device("cuda", index) for index in range(torch.cuda.device_count()))]:
        yield Fact("device", _described(device), mps_problem(device))
        yield from kernels(device)


def versions() -> Iterator[Fact]:
    """Yield the versions of Python and of what the package is made of."""
    yield Fact("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Fact("simplepcfg", __version__)
    for name in PACKAGES:
        try:
            yield Fact(name, version(name))
        except PackageNotFoundError:
            problem = None if name in OPTIONAL else f"pip install {name}"
            yield Fact(name, "not installed", problem)


def machine(folder: Path) -> Iterator[Fact]:
    """Yield threads, memory and disk."""
    cores, threads = usable_cores(), torch.get_num_threads()
    slow = f"more threads than cores are slow; set OMP_NUM_THREADS={cores}" if threads > cores else None
    yield Fact("threads", f"{threads} of {cores} cores", slow)
    free = available_memory(torch.device("cpu"))
    if free is not None:
        yield Fact(
            "memory", f"{free / 2**30:.1f} GiB free", _tight(free, "close other programs, or take a smaller model")
        )
    disk = shutil.disk_usage(folder).free
    yield Fact("disk", f"{disk / 2**30:.1f} GiB free in {folder}", _tight(disk, "make room for checkpoints"))


def kernels(device: torch.device) -> Iterator[Fact]:
    """Yield how each backend that runs on a device, in float32, compares with the naive form in float64 on the CPU."""
    emissions, root, left, right, lengths = _example()
    truth = inside(emissions, root, left, right, lengths=lengths, backend="naive")
    given = [tensor.float().to(device) for tensor in (emissions, root, left, right)]
    plain = inside(*given, lengths=lengths.to(device), backend="naive").double().cpu()
    allowed = max(2 * float((plain - truth).abs().max()), 1e-4)
    for name in (*ANYWHERE, *(ON_GPU if device.type == "cuda" else ())):
        try:
            log_z = inside(*given, lengths=lengths.to(device), precision="fp32", backend=name).double().cpu()
        except Exception as error:  # whatever a driver or a compiler raises is the answer here
            yield Fact(f"inside, {name}", f"failed: {' '.join(str(error).split())[:100]}", "see the message")
            continue
        distance = float((log_z - truth).abs().max())
        wrong = None if distance <= allowed else "wrong on this device: report it with this output"
        yield Fact(
            f"inside, {name}", f"error {distance:.1e} nats against the naive form (at most {allowed:.1e})", wrong
        )


def mps_problem(device: torch.device) -> str | None:
    """Return what to do about a limited share of a GPU's multiprocessors, or None where there is none."""
    limited = device.type == "cuda" and os.environ.get(MPS_SHARE, "100") not in ("", "100")
    return f"bfloat16 products can be NaN with a share of a GPU; unset {MPS_SHARE}" if limited else None


def _example() -> tuple[torch.Tensor, ...]:
    """Return a random grammar and sentences of different lengths, in float64."""
    generator = torch.Generator().manual_seed(0)

    def rows(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).softmax(-1)

    children = NONTERMINALS + PRETERMINALS
    emissions = torch.randn(BATCH, LENGTH, PRETERMINALS, generator=generator, dtype=torch.float64) - 3
    lengths = torch.tensor([LENGTH, LENGTH - 2, 2])
    return emissions, rows(NONTERMINALS), rows(NONTERMINALS, children), rows(NONTERMINALS, children), lengths


def _described(device: torch.device) -> str:
    if device.type == "cpu":
        processor = platform.processor() or platform.machine()
        return f"cpu, {processor}, instructions {torch.backends.cpu.get_cpu_capability()}"
    gpu = torch.cuda.get_device_properties(device)
    return f"{device}, {gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"


def _tight(size: int, fix: str) -> str | None:
    return None if size >= LEAST_FREE else f"little; {fix}"
