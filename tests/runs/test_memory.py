"""Readings of memory: what the system says, the limit of a container, and systems that say nothing."""

import os
from pathlib import Path

import pytest
import torch

from simplepcfg.runs import memory

CPU = torch.device("cpu")


def test_this_machine() -> None:
    free, size = memory.available_memory(CPU), memory.physical_memory()
    assert size is None or size > 2**20
    assert free is None or size is None or 0 < free <= size


def container(folder: Path, limit: str) -> Path:
    (folder / "memory.max").write_text(f"{limit}\n", "ascii")
    (folder / "memory.current").write_text("900\n", "ascii")
    (folder / "memory.stat").write_text("anon 5\ninactive_file 300\nactive_file 400\n", "ascii")
    return folder


@pytest.mark.parametrize(("limit", "free"), [("1000", 800), ("max", None), ("", None)])
def test_the_limit_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, free: int | None
) -> None:
    if memory.available_memory(CPU) is None:
        pytest.skip("the system does not say")
    monkeypatch.setattr(memory, "_CONTAINER", container(tmp_path, limit))
    reading = memory.available_memory(CPU)
    assert reading == free if free is not None else reading is not None and reading > 1000


def test_a_system_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert memory.physical_memory() is None
    monkeypatch.setattr(memory, "_read_number", lambda path, name="": None)
    assert memory.available_memory(CPU) is None
