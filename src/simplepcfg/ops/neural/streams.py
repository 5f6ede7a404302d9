"""Work on several CUDA streams at once, so that matrix products overlap with elementwise passes.

Both functions fork from the current stream and join it at the end, so that the work can be captured in a CUDA graph.
Callers allocate all buffers before the fork and keep them until the join: the allocator may otherwise give the memory
of one stream to another too early.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TypeVar

import torch

Job = TypeVar("Job")
OVERLAP = True


@contextmanager
def parallel_streams(device: torch.device, count: int) -> Iterator[list[AbstractContextManager[object]]]:
    """Provide ``count`` contexts that run work on streams of their own; each can be entered repeatedly."""
    if not (OVERLAP and device.type == "cuda"):
        yield [nullcontext()] * count
        return
    main, sides = torch.cuda.current_stream(device), [_side_stream(device, k) for k in range(count - 1)]
    for side in sides:
        side.wait_stream(main)
    try:
        yield [nullcontext(), *(torch.cuda.stream(side) for side in sides)]
    finally:
        for side in sides:
            main.wait_stream(side)


def assign_to_streams(jobs: Iterable[tuple[int, Job]], count: int) -> list[tuple[int, Job]]:
    """Distribute (cost, job) pairs over streams, the costliest first, each to the least loaded: (stream, job) pairs."""
    loads, found = [0] * count, []
    for cost, job in sorted(jobs, key=lambda each: -each[0]):
        stream = loads.index(min(loads))
        loads[stream] += cost
        found.append((stream, job))
    return found


def pipeline(
    count: int,
    make: Callable[[int, int], None],
    use: Callable[[int, int], None],
    device: torch.device,
    *,
    side_stream: str,
) -> None:
    """Call make(k, slot) and then use(k, slot) for every k < count, where slot is the number of a buffer.

    The calls of ``side_stream``, "make" or "use", run on a second stream, so that item k + 1 is made while item k is
    used. There are ``buffer_count`` buffers; one is overwritten only after its use. Each stream keeps the order of k,
    so that results do not depend on the number of streams.
    """
    if buffer_count(count, device) == 1:
        for k in range(count):
            make(k, 0)
            use(k, 0)
        return
    main, side = torch.cuda.current_stream(device), _side_stream(device, 0)
    maker, user = (side, main) if side_stream == "make" else (main, side)
    used: list[torch.cuda.Event] = []
    side.wait_stream(main)
    try:
        for k in range(count):
            with torch.cuda.stream(maker):
                if k >= 2:
                    maker.wait_event(used[k - 2])
                make(k, k % 2)
                made = maker.record_event()
            with torch.cuda.stream(user):
                user.wait_event(made)
                use(k, k % 2)
                used.append(user.record_event())
    finally:
        main.wait_stream(side)


def buffer_count(count: int, device: torch.device) -> int:
    """Return the number of buffers that ``pipeline`` uses: two if it runs on two streams, else one."""
    return 2 if OVERLAP and device.type == "cuda" and count > 1 else 1


@cache
def _side_stream(device: torch.device, number: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
