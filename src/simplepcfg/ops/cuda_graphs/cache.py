"""A bounded cache of CUDA graphs by shape: which shapes are captured, which are evicted, and when to give up."""

import math
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

import torch

from simplepcfg.errors import is_out_of_memory

# A shape is captured when it occurs for the second time: the first call compiles kernels, and may be the only one.
CAPTURE_AT = 2
SHAPES_SEEN = 1024  # shapes of which the number of calls is remembered

Key = tuple[object, ...]


class CacheEntry(Protocol):
    """Captured graphs of one shape, and the buffers that they compute in."""

    @property
    def bytes(self) -> int:
        """Estimated memory."""
        ...

    @property
    def is_free(self) -> bool:
        """Whether nothing in the buffers is still needed, so that they may be filled again."""
        ...


Entry = TypeVar("Entry", bound=CacheEntry)


class GraphCache(Generic[Entry]):
    """Entries by shape, the least recently used first.

    ``shapes`` is the largest number of shapes, ``memory`` the largest number of bytes of all entries together. After
    each eviction a shape must occur ``patience`` times as often until it is captured again: if more shapes recur than
    are kept, most calls are then plain, instead of each capturing a graph that is evicted before its next use.
    """

    def __init__(self, device: torch.device, shapes: int, memory: float = math.inf, patience: int = 1) -> None:
        self.device, self._shapes, self._memory, self._patience = device, shapes, memory, patience
        # By shape: the number of plain calls since it was captured last, and how many it takes to be captured.
        self._seen: OrderedDict[Key, tuple[int, int]] = OrderedDict()
        self._entries: OrderedDict[Key, list[Entry]] = OrderedDict()
        self._on_gpu = device.type == "cuda"

    @property
    def is_open(self) -> bool:
        """Whether anything is captured: not with 0 shapes, nor after ``close``."""
        return bool(self._shapes)

    @property
    def keys(self) -> list[Key]:
        """The shapes that have entries, the most recently used last."""
        return list(self._entries)

    @property
    def bytes(self) -> int:
        """Estimated memory of all entries; any thread may ask."""
        return sum(entry.bytes for entries in list(self._entries.values()) for entry in entries)

    @property
    def count(self) -> int:
        """Number of entries."""
        return sum(map(len, list(self._entries.values())))

    def has(self, key: Key) -> bool:
        """Return whether there is an entry of this shape."""
        return key in self._entries

    def ready(self, key: Key) -> Entry | None:
        """Return an entry of a shape whose buffers are free, if there is one."""
        for entry in self._entries.get(key, ()):
            if entry.is_free:
                self._entries.move_to_end(key)
                return entry
        return None

    def is_time(self, key: Key) -> bool:
        """Count a call of a shape and return whether to capture it."""
        count, needed = self._seen.pop(key, (0, CAPTURE_AT))
        self._seen[key] = (count + 1, needed)
        if len(self._seen) > SHAPES_SEEN:
            self._seen.popitem(last=False)
        return count + 1 >= needed

    def make_room(self, key: Key, needed: int = 0) -> bool:
        """Evict the least recently used entries until one of ``needed`` bytes fits; if it cannot, postpone its shape.

        Returns whether it fits: within the bounds, and twice into the free memory of a GPU.
        """
        if needed <= self._memory and not (self._on_gpu and needed and 2 * needed > self._free_memory()):
            for old in list(self._entries):
                if self._fits(key, needed):
                    break
                if old != key and all(entry.is_free for entry in self._entries[old]):
                    self._synchronize()  # the graphs may still be running
                    del self._entries[old]
                    self._postpone(old)
            if self._fits(key, needed):
                return True
        self._postpone(key)
        return False

    def add(self, key: Key, entry: Entry) -> None:
        """Add a captured entry."""
        self._entries.setdefault(key, []).append(entry)

    def close(self) -> None:
        """Free all entries and capture no more. An entry that is in use lives until its user drops it."""
        self._synchronize()
        self._shapes = 0
        self._entries.clear()
        self._seen.clear()

    def give_up(self, error: Exception) -> str:
        """Close the cache because of an error of a capture; return the reason in a few words."""
        self.close()
        return "too little memory" if is_out_of_memory(error) else str(error).strip().partition("\n")[0]

    def _fits(self, key: Key, needed: int) -> bool:
        shapes = len(self._entries) + (key not in self._entries)
        return self.bytes + needed <= self._memory and shapes <= self._shapes

    def _postpone(self, key: Key) -> None:
        """Let a shape occur more often than before until it is captured."""
        self._seen[key] = (0, self._patience * self._seen.get(key, (0, CAPTURE_AT))[1])

    def _free_memory(self) -> int:
        free = torch.cuda.mem_get_info(self.device)[0]
        return free + torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)

    def _synchronize(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize(self.device)
