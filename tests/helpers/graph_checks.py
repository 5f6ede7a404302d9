"""Checks that calls with graphs give the bits of calls without them, also in threads and on streams.

Needs torch alone.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from simplepcfg.ops.cuda_graphs.calls import without_graphs

Answer = tuple[Tensor, ...]
_KNOWN: dict[tuple[object, ...], Answer] = {}


def assert_equal(found: Answer, expected: Answer) -> None:
    """Bit for bit, once a GPU has done all its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    _compare(found, expected)


def check_threads(calls: Sequence[Callable[[], Answer]], expected: Sequence[Answer], times: int) -> None:
    """Repeat each call in a thread of its own and, on a GPU, on a stream of its own."""
    wrong: list[BaseException] = []

    def work(call: Callable[[], Answer], truth: Answer) -> None:
        on_gpu = truth[0].device.type == "cuda"
        try:
            with torch.cuda.stream(torch.cuda.Stream(truth[0].device)) if on_gpu else nullcontext():
                for _ in range(times):
                    found = call()
                    if on_gpu:
                        torch.cuda.current_stream().synchronize()
                    _compare(found, truth)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(calls, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def check_streams(calls: Sequence[Callable[[], Answer]], expected: Sequence[Answer], count: int = 3) -> None:
    """Calls on several streams of a GPU, without a wait between them, do not disturb one another."""
    streams = [torch.cuda.Stream(expected[0][0].device) for _ in range(count)]
    torch.cuda.synchronize()
    for _ in range(4):
        found = []
        for k, call in enumerate(calls):
            with torch.cuda.stream(streams[k % count]):
                found.append(call())
        torch.cuda.synchronize()
        for ours, theirs in zip(found, expected, strict=True):
            _compare(ours, theirs)


def remembered_without_graphs(function: Callable[..., Answer], *given: object, **options: object) -> Answer:
    """Call a function without graphs, once for equal arguments: an interpreter takes long for its kernels.

    What it returns must not be differentiable.
    """
    key = (function, *map(_content, given), *((name, _content(value)) for name, value in sorted(options.items())))
    if key not in _KNOWN:
        with without_graphs():
            _KNOWN[key] = function(*given, **options)
        assert not any(tensor.requires_grad for tensor in _KNOWN[key])
    return _KNOWN[key]


def _compare(found: Answer, expected: Answer) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs), float((ours.double() - theirs.double()).abs().max())


def _content(value: object) -> object:
    """What tells arguments apart: of tensors, everything but their addresses."""
    if isinstance(value, tuple):
        return tuple(map(_content, value))
    if not isinstance(value, Tensor):
        return value
    layout = (value.dtype, value.shape, value.stride(), value.requires_grad)
    return *layout, value.detach().contiguous().view(torch.uint8).numpy().tobytes()
