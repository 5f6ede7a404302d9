"""The cache of captured shapes: when a shape is captured, what is evicted, and what ends it."""

from dataclasses import dataclass

import torch

from simplepcfg.ops.cuda_graphs.cache import GraphCache


@dataclass(eq=False)
class Held:
    bytes: int = 1
    is_free: bool = True


def use(cache: GraphCache[Held], name: str, needed: int = 1) -> bool:
    """Whether a call of this shape has an entry, captured now or before."""
    key = (name,)
    if cache.ready(key) is not None:
        return True
    if not cache.is_time(key) or not cache.make_room(key, needed):
        return False
    cache.add(key, Held(needed))
    return True


def cache(shapes: int = 2, memory: float = 10, patience: int = 1) -> GraphCache[Held]:
    return GraphCache(torch.device("cpu"), shapes, memory, patience)


def test_the_least_recently_used_shape_is_evicted() -> None:
    held = cache()
    assert [use(held, name) for name in "aabbacc"] == [False, True, False, True, True, False, True]
    assert held.keys == [("a",), ("c",)]
    assert [use(held, "b") for _ in range(2)] == [False, True]
    assert (held.keys, held.count, held.bytes) == ([("c",), ("b",)], 2, 2)


def test_an_evicted_shape_waits_longer() -> None:
    held = cache(shapes=1, patience=3)
    assert [use(held, name) for name in "aabb"] == [False, True, False, True]  # evicts a
    assert [use(held, "a") for _ in range(6)] == [False] * 5 + [True]


def test_memory_is_bounded() -> None:
    held = cache(shapes=5)
    assert [use(held, name, 6) for name in "aabb"] == [False, True, False, True]
    assert held.keys == [("b",)]
    assert [use(held, "c", 11) for _ in range(3)] == [False] * 3  # larger than all
    assert held.has(("b",))


def test_what_is_in_use_is_not_evicted() -> None:
    held = cache(shapes=1)
    busy = Held(is_free=False)
    held.add(("a",), busy)
    assert held.ready(("a",)) is None
    assert [use(held, "b") for _ in range(2)] == [False, False]
    busy.is_free = True
    assert [use(held, "b") for _ in range(2)] == [False, True]
    assert held.keys == [("b",)]


def test_giving_up_frees_everything() -> None:
    held = cache()
    held.add(("a",), Held())
    assert held.is_open
    assert held.give_up(RuntimeError("operation not permitted\nmore")) == "operation not permitted"
    assert (held.is_open, held.keys) == (False, [])
    assert cache().give_up(RuntimeError("CUDA out of memory")) == "too little memory"
