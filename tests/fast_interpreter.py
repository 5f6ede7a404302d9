"""Triton's interpreter without the work it repeats: the same arithmetic and checks in about a third of the time.

At every launch and at every call of a device function, the interpreter lists all members of `triton.language` to
replace its builtin functions. For every tensor it makes the table of NumPy types, the type of a block and the constants
of its shape anew, and it checks integers for overflow by a dozen operations of its own. Here the first is done once,
types and shapes are remembered, and NumPy checks for overflow. A process that interprets kernels compiles none, so that
the replaced functions can stay in place.
"""

import importlib.util
import math
import os
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np


def speed_up() -> None:
    """Change the interpreter of this process; do nothing where kernels are compiled, or without Triton."""
    if os.environ.get("TRITON_INTERPRET") != "1" or importlib.util.find_spec("triton") is None:
        return
    import triton.language as tl
    from triton.runtime import interpreter

    if hasattr(interpreter, "_patched_once"):
        return
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    nothing_to_restore = interpreter._LangPatchScope()
    interpreter._patch_lang = lambda fn: nothing_to_restore
    of_numbers, of_pointers = cache(interpreter._get_np_dtype), interpreter._get_np_dtype(tl.pointer_type(tl.int8))
    interpreter._get_np_dtype = lambda given: of_pointers if given.scalar.is_ptr() else of_numbers(given.scalar)
    _remember_block_types(tl.core)
    _remember_shapes(tl.core)
    type(interpreter.interpreter_semantic).binary_op_sanitize_overflow_impl = _check_overflow
    interpreter._patched_once = True


def _remember_block_types(core: Any) -> None:
    """Give equal types of blocks of numbers the attributes of the first one."""
    make, seen = core.block_type.__init__, {}

    def remembering(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple(size.value if isinstance(size, core.constexpr) else size for size in shape)
        if element_ty.is_ptr() or not all(type(size) is int for size in sizes):
            make(self, element_ty, shape)
            return
        if (element_ty, sizes) not in seen:
            make(self, element_ty, shape)
            seen[element_ty, sizes] = dict(self.__dict__)
        self.__dict__.update(seen[element_ty, sizes])

    core.block_type.__init__ = remembering


def _remember_shapes(core: Any) -> None:
    """Make the constants of a tensor's shape once for each shape."""

    @cache
    def constants(sizes: tuple[int, ...]) -> tuple[Any, Any]:
        return core.constexpr(math.prod(sizes)), core.tuple([core.constexpr(size) for size in sizes])

    def init(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.numel, self.shape = constants(tuple(type.shape) if type.is_block() else ())

    core.tensor.__init__ = init


def _check_overflow(self: Any, lhs: Any, rhs: Any, binary_op: Callable[..., Any]) -> None:
    """Assert that the sum, difference or product of integers of up to 32 bits has room in their type."""
    kind = lhs.type.scalar
    if kind.int_bitwidth >= 64:
        return
    assert kind == rhs.type.scalar
    assert kind.is_int()
    operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[binary_op.__name__]
    found = operation(lhs.handle.data.astype(np.int64), rhs.handle.data.astype(np.int64))
    inside = kind.get_int_min_value() <= found.min() and found.max() <= kind.get_int_max_value()
    assert inside, f"int{kind.int_bitwidth} overflow detected for operation {binary_op.__name__}"
