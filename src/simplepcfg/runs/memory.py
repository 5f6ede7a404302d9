"""The memory of a device, and how much of it is free."""

import os
from pathlib import Path

import torch

_CONTAINER = Path("/sys/fs/cgroup")


def physical_memory() -> int | None:
    """Return the bytes of this machine's memory, or None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def available_memory(device: torch.device) -> int | None:
    """Return the free bytes of a device, or None where the system does not say.

    Memory that caches of files take counts as free, and the limit of a container as the size of the memory.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = _read_number(Path("/proc/meminfo"), "MemAvailable:")
    limit, used = _read_number(_CONTAINER / "memory.max"), _read_number(_CONTAINER / "memory.current")
    if free is None or limit is None or used is None:
        return None if free is None else 1024 * free
    statistics = _CONTAINER / "memory.stat"
    caches = sum(_read_number(statistics, f"{kind}_file") or 0 for kind in ("active", "inactive"))
    return min(1024 * free, limit - used + caches)


def _read_number(path: Path, name: str = "") -> int | None:
    """Return the number after `name`, at the start of a line of a file; None if there is none."""
    try:
        line = next(line for line in path.read_text("ascii").splitlines() if line.startswith(name))
        return int(line.removeprefix(name).split()[0])
    except (OSError, ValueError, IndexError, StopIteration):
        return None
