"""Two streams at once, played on streams that only write down what they are told."""

import pytest
import torch

from simplepcfg.ops.neural import streams


class FakeGPU:
    """Streams as lists of what each runs and waits for; an event is (stream, how much of it was there)."""

    def __init__(self) -> None:
        self.main, self.side, self.third = FakeStream("main"), FakeStream("side"), FakeStream("third")
        self.current = self.main

    def stream(self, stream: "FakeStream") -> "FakeContext":
        return FakeContext(self, stream)


class FakeContext:
    """May be entered repeatedly, as torch's can."""

    def __init__(self, gpu: FakeGPU, stream: "FakeStream") -> None:
        self.gpu, self.stream = gpu, stream

    def __enter__(self) -> None:
        self.before, self.gpu.current = self.gpu.current, self.stream

    def __exit__(self, *_: object) -> None:
        self.gpu.current = self.before


class FakeStream:
    def __init__(self, name: str) -> None:
        self.name, self.done = name, list[object]()

    def record_event(self) -> tuple["FakeStream", int]:
        return self, len(self.done)

    def wait_event(self, event: tuple["FakeStream", int]) -> None:
        self.done.append(("wait", *event))

    def wait_stream(self, stream: "FakeStream") -> None:
        self.wait_event(stream.record_event())


def before(stream: FakeStream, place: int) -> set[object]:
    """Everything that is over when a stream comes to a place: its own work, and what it waited for."""
    found: set[object] = set()
    for item in stream.done[:place]:
        if isinstance(item, tuple) and item[0] == "wait":
            found |= before(item[1], item[2])
        else:
            found.add(item)
    return found


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGPU:
    fake = FakeGPU()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: fake.current)
    monkeypatch.setattr(torch.cuda, "stream", fake.stream)
    monkeypatch.setattr(streams, "_side_stream", lambda device, number: (fake.side, fake.third)[number])
    return fake


@pytest.mark.parametrize("side_stream", ["make", "use"])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_pipeline_waits_for_what_it_needs(gpu: FakeGPU, count: int, side_stream: str) -> None:
    places = {}

    def note(what: str, k: int, slot: int) -> None:
        assert slot == k % 2
        places[what, k] = gpu.current, len(gpu.current.done)
        gpu.current.done.append(f"{what} {k}")

    gpu.main.done.append("earlier")
    streams.pipeline(
        count, lambda *k: note("make", *k), lambda *k: note("use", *k), torch.device("cuda", 0), side_stream=side_stream
    )
    assert {stream.name for (what, _), (stream, _) in places.items() if what == side_stream} == {"side"}
    for k in range(count):
        assert {"earlier", f"make {k}"} <= before(*places["use", k])
        if k >= 2:
            assert f"use {k - 2}" in before(*places["make", k])
        if k >= 1:
            assert f"use {k - 1}" not in before(*places["make", k])
    everything = {f"{what} {k}" for what in ("make", "use") for k in range(count)}
    assert everything <= before(gpu.main, len(gpu.main.done))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_parallel_streams_are_forked_and_joined(gpu: FakeGPU, count: int) -> None:
    gpu.main.done.append("earlier")
    with streams.parallel_streams(torch.device("cuda", 0), count) as contexts:
        for k in range(6):
            with contexts[k % count]:
                gpu.current.done.append(k)
    for lane, side in enumerate((gpu.side, gpu.third)[: count - 1], start=1):
        assert "earlier" in before(side, len(side.done))
        assert side.done[1:] == list(range(lane, 6, count))
    assert {0, 1, 2, 3, 4, 5} <= before(gpu.main, len(gpu.main.done))


def test_jobs_are_spread_by_their_cost() -> None:
    jobs = [(1, "a"), (5, "b"), (3, "c"), (3, "d"), (0, "e")]
    assert streams.assign_to_streams(jobs, 2) == [(0, "b"), (1, "c"), (1, "d"), (0, "a"), (0, "e")]
    assert streams.assign_to_streams(jobs, 1) == [(0, "b"), (0, "c"), (0, "d"), (0, "a"), (0, "e")]


@pytest.mark.parametrize("overlap", [True, False])
def test_one_stream_has_one_buffer(overlap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "OVERLAP", overlap)
    device = torch.device("cpu") if overlap else torch.device("cuda", 0)
    found: list[tuple[str, int, int]] = []
    make, use = (lambda *k, what=what: found.append((what, *k)) for what in ("make", "use"))
    streams.pipeline(2, make, use, device, side_stream="use")
    assert found == [("make", 0, 0), ("use", 0, 0), ("make", 1, 0), ("use", 1, 0)]
    assert streams.buffer_count(5, device) == 1
