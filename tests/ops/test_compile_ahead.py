"""Kernels that are not compiled are collected instead of launched, and on a CPU there are none."""

from types import SimpleNamespace

import pytest
import torch
from triton import knobs

from simplepcfg.ops import compile_ahead
from simplepcfg.ops.compile_ahead import compile_kernels


def test_nothing_runs_on_a_cpu() -> None:
    def computation() -> None:
        raise AssertionError("was run")

    assert compile_kernels([computation], torch.device("cpu")) == 0


def test_missing_kernels_are_collected_and_the_hook_is_put_back() -> None:
    def before(**_: object) -> bool:
        return False

    kernel = SimpleNamespace(jit_function="a kernel")
    knobs.runtime.jit_cache_hook = before
    try:
        with pytest.raises(ZeroDivisionError), compile_ahead._collecting_missing_kernels() as missing:  # noqa: PT012
            for key in ("int32", "int64", "int32"):
                hook = knobs.runtime.jit_cache_hook
                assert hook(key=key, fn=kernel, compile={"specialization_data": f"of {key}"}, is_manual_warmup=False)
            raise ZeroDivisionError
        assert knobs.runtime.jit_cache_hook is before
    finally:
        knobs.runtime.jit_cache_hook = None
    assert missing == {("a kernel", "int32"): "of int32", ("a kernel", "int64"): "of int64"}
