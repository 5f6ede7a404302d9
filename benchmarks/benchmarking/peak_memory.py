"""Peak memory of a forward and backward pass, in addition to its inputs.

On a GPU this is the peak of PyTorch's allocator. On a CPU it is the growth of the resident set (VmHWM) of a separate
process that runs the pass once, which includes the allocations of all libraries.
"""

import contextlib
import gc
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import torch

from benchmarking.sizes import Size, forward_backward
from simplepcfg.errors import ResourceError, is_out_of_memory
from simplepcfg.runs.processes import process_context


def peak_on_gpu(function: Callable[[], object]) -> float:
    """Measure the peak memory in bytes of a function that has run before, above what was allocated."""
    release()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated() - before)


def peak_on_cpu(size: Size, backend: str, precision: str) -> float:
    """Measure by how many bytes a new process grows; ResourceError if it runs out of memory."""
    with ProcessPoolExecutor(1, process_context("benchmarking.sizes")) as process:
        try:
            return process.submit(_growth, size, backend, precision, torch.get_num_threads()).result()
        except Exception as error:
            if not is_out_of_memory(error) and not isinstance(error, BrokenProcessPool):  # which the system has ended
                raise
            raise ResourceError(f"{backend} at {size} runs out of memory; take a smaller size") from None


def release() -> None:
    """Free unused memory, so that one measurement does not affect the next."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _resident_peak() -> int:
    """Return the peak resident set in bytes, from VmHWM if possible: a child process inherits ru_maxrss."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
    except (OSError, StopIteration):
        import resource

        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest if sys.platform == "darwin" else 1024 * largest


def _growth(size: Size, backend: str, precision: str, threads: int) -> float:
    torch.set_num_threads(threads)
    cpu = torch.device("cpu")
    forward_backward(Size(2, 4, 64, 64), backend, precision, cpu)()  # loads libraries and starts threads
    step = forward_backward(size, backend, precision, cpu)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    before = _resident_peak()
    step()
    return float(_resident_peak() - before)
