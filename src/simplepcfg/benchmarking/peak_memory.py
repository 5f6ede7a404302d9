"""Peak memory of a forward and backward pass, in addition to its inputs.

On a GPU this is the peak of PyTorch's allocator. On a CPU it is the growth of the resident set (VmHWM) of a separate
process that runs the pass once, which includes the allocations of all libraries.
"""

import contextlib
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import torch

from simplepcfg.benchmarking.sizes import Size, forward_backward
from simplepcfg.errors import ResourceError, is_out_of_memory

OUT_OF_MEMORY = 4


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
    job = json.dumps([astuple(size), backend, precision, torch.get_num_threads()])
    source = str(Path(__file__).parents[2])
    paths = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "simplepcfg.benchmarking.peak_memory", job]
    child = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths}
    )
    if child.returncode in (OUT_OF_MEMORY, -9, 137):
        raise ResourceError(f"{backend} at {size} runs out of memory; take a smaller size")
    if child.returncode:
        raise RuntimeError(f"measuring the memory of {backend} at {size} failed: {child.stderr.strip()[-2000:]}")
    return float(child.stdout)


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


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _child(job: str) -> int:
    (batch, n, nonterminals, preterminals, lengths), backend, precision, threads = json.loads(job)
    torch.set_num_threads(threads)
    cpu = torch.device("cpu")
    forward_backward(Size(2, 4, 64, 64), backend, precision, cpu)()  # loads libraries and starts threads
    size = Size(batch, n, nonterminals, preterminals, lengths and tuple(lengths))
    try:
        step = forward_backward(size, backend, precision, cpu)
        _forget_peak()
        before = _resident_peak()
        step()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return OUT_OF_MEMORY
    print(_resident_peak() - before)
    return 0


if __name__ == "__main__":
    sys.exit(_child(sys.argv[1]))
