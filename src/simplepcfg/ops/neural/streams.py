"""Several streams of a GPU at once: products keep its tensor cores busy while elementwise passes keep its memory busy.

What streams use is allocated before they part and held until they are joined, so no stream's memory is handed to
another early. Both helpers fork from the current stream and join it again, and so are captured in a graph whole.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TypeVar

import torch

Job = TypeVar("Job")
OVERLAP = True


@contextmanager
def lanes(device: torch.device, count: int) -> Iterator[list[AbstractContextManager[object]]]:
    """So many contexts, each to be entered as often as needed: work in one does not wait for work in the others."""
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


def spread(jobs: Iterable[tuple[int, Job]], count: int) -> list[tuple[int, Job]]:
    """(lane, job) of every (cost, job): the dearest first, each in the lane that has least to do."""
    loads, found = [0] * count, []
    for cost, job in sorted(jobs, key=lambda each: -each[0]):
        lane = loads.index(min(loads))
        loads[lane] += cost
        found.append((lane, job))
    return found


def pipeline(
    count: int,
    make: Callable[[int, int], None],
    use: Callable[[int, int], None],
    device: torch.device,
    *,
    aside: str,
) -> None:
    """make(k, slot), then use(k, slot) for every k < count, where slot says which of the ``slots`` buffers.

    ``aside`` ("make" or "use") goes to a stream of its own, so that the next is made while this one is used; a slot is
    made again only when its use is over. Each stream keeps the order of k, so the results are those of one stream.
    """
    if slots(count, device) == 1:
        for k in range(count):
            make(k, 0)
            use(k, 0)
        return
    main, side = torch.cuda.current_stream(device), _side_stream(device, 0)
    maker, user = (side, main) if aside == "make" else (main, side)
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


def slots(count: int, device: torch.device) -> int:
    """How many buffers ``pipeline`` takes turns with: two where two streams run, else one."""
    return 2 if OVERLAP and device.type == "cuda" and count > 1 else 1


@cache
def _side_stream(device: torch.device, number: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
