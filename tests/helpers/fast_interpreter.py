"""Triton's interpreter without the work it repeats: the same arithmetic and checks in a fraction of the time.

At every launch and at every call of a device function, the interpreter lists all members of `triton.language` to
replace its builtin functions. For every tensor it makes the table of NumPy types, the type of a block and the constants
of its shape anew, for every operation it works out the type of the result and how shapes are broadcast, and it checks
integers for overflow by a dozen operations of its own. Here the first is done once, types, shapes and constants are
remembered, also what a scalar becomes in another type or as a block, operands of one type and shape are taken as they
are, bfloat16 is a shift of bits, and NumPy checks for overflow. A process that interprets kernels compiles none, so
that the replaced functions can stay in place.
"""

import importlib.util
import math
import os
from collections.abc import Callable
from functools import cache, wraps
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
    _call_builtins_directly(interpreter, tl.core)
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    nothing_to_restore = interpreter._LangPatchScope()
    interpreter._patch_lang = lambda fn: nothing_to_restore
    of_numbers, of_pointers = cache(interpreter._get_np_dtype), interpreter._get_np_dtype(tl.pointer_type(tl.int8))
    interpreter._get_np_dtype = lambda given: of_pointers if given.scalar.is_ptr() else of_numbers(given.scalar)
    _compare_types_by_identity_first(tl.core)
    _unwrap_constants_by_class(tl.core)
    _remember_block_types(tl.core)
    _remember_shapes(tl.core)
    semantic = type(interpreter.interpreter_semantic)
    semantic.binary_op_sanitize_overflow_impl = _check_overflow
    _take_equal_operands_as_they_are(semantic, tl.core)
    _remember_constants(semantic, tl.core)
    _remember_casts_of_scalars(semantic, tl.core)
    _make_handles_quickly(interpreter, tl.core)
    interpreter._convert_float = _shift_bits(interpreter._convert_float, tl.core)
    interpreter._patched_once = True


def _call_builtins_directly(interpreter: Any, core: Any) -> None:
    """Let a patched builtin call its function without a copy of its arguments and without the check for them."""
    checked = core.program_id.__code__  # of what `builtin` makes of a function

    def patch(obj: Any, name: str, member: Any, builder: Any, scope: Any) -> None:
        function = member.__wrapped__ if getattr(member, "__code__", None) is checked else member
        semantic = interpreter.interpreter_semantic

        def call(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return function(*args, **kwargs)

        scope.set_attr(obj, name, call)

    interpreter._patch_attr = patch


def _compare_types_by_identity_first(core: Any) -> None:
    """Let a type be equal to itself without comparing names."""
    by_name = core.dtype.__eq__
    core.dtype.__eq__ = lambda self, other: self is other or by_name(self, other)


def _unwrap_constants_by_class(core: Any) -> None:
    """Return what is neither a constant nor a sequence at once."""
    unwrap, plain = core._unwrap_if_constexpr, {int, float, bool, type(None), core.tensor, core.dtype, str}

    def by_class(given: Any) -> Any:
        kind = given.__class__
        if kind in plain:
            return given
        return given.value if kind is core.constexpr else unwrap(given)

    core._unwrap_if_constexpr = by_class


def _remember_block_types(core: Any) -> None:
    """Give equal types of blocks the attributes of the first one, and their sizes as a tuple of Python."""
    make, pointer = core.block_type.__init__, core.pointer_type
    seen: dict[tuple[object, ...], dict[str, Any]] = {}

    def remembering(self: Any, element_ty: Any, shape: Any) -> None:
        of_pointer = (element_ty.address_space, element_ty.const) if element_ty.__class__ is pointer else ()
        key = (element_ty.name, of_pointer, *shape)  # constants of Triton are equal to their values
        known = seen.get(key)
        if known is None:
            make(self, element_ty, shape)
            sizes = tuple([size.value if isinstance(size, core.constexpr) else size for size in shape])
            if {type(size) for size in sizes} <= {int}:
                seen[element_ty.name, of_pointer, *sizes] = {**self.__dict__, "sizes": sizes}
        else:
            self.__dict__.update(known)

    core.block_type.__init__ = remembering


def _remember_shapes(core: Any) -> None:
    """Make the constants of a tensor's shape once for each shape, so that equal shapes are one object."""

    @cache
    def constants(sizes: tuple[int, ...]) -> tuple[Any, Any]:
        return core.constexpr(math.prod(sizes)), core.tuple([core.constexpr(size) for size in sizes])

    no_sizes = constants(())

    def init(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        if not type.is_block():
            self.numel, self.shape = no_sizes
        else:
            self.numel, self.shape = constants(type.__dict__.get("sizes") or tuple(type.shape))

    core.tensor.__init__ = init


def _take_equal_operands_as_they_are(semantic: Any, core: Any) -> None:
    """Skip promotion for operands of one type and broadcasting for those of one shape."""
    tensor, block_type = core.tensor, core.block_type
    promote, broadcast, computation_type = (
        semantic.binary_op_type_checking_impl,
        semantic.broadcast_impl_value,
        semantic.computation_type_impl,
    )
    known: dict[tuple[object, ...], Any] = {}
    numbers = {int, float, bool}

    def promoted(
        self: Any,
        lhs: Any,
        rhs: Any,
        allow_lhs_ptr: bool = False,
        allow_rhs_ptr: bool = False,
        arithmetic_check: bool = True,
        div_or_mod: bool = False,
    ) -> tuple[Any, Any]:
        if lhs.__class__ is tensor and rhs.__class__ is tensor:
            left, right = lhs.dtype, rhs.dtype
            # Only quotients of numbers of less than 32 bits are computed in another type than that of both.
            same = left is right and not left.is_ptr() and (not div_or_mod or left.primitive_bitwidth >= 32)
            if same or (left.is_ptr() and allow_lhs_ptr and right.is_int()):
                return broadcasted(self, lhs, rhs)
        elif arithmetic_check:
            if lhs.__class__ is tensor and rhs.__class__ in numbers and rhs == rhs and not lhs.dtype.is_ptr():
                kind, constant = beside_number(self, lhs.dtype, rhs, False, div_or_mod)
                return broadcasted(self, self.cast(lhs, kind), constant)
            if rhs.__class__ is tensor and lhs.__class__ in numbers and lhs == lhs and not rhs.dtype.is_ptr():
                kind, constant = beside_number(self, rhs.dtype, lhs, True, div_or_mod)
                return broadcasted(self, constant, self.cast(rhs, kind))
        return promote(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)

    def beside_number(self: Any, dtype: Any, number: Any, number_first: bool, div_or_mod: bool) -> tuple[Any, Any]:
        """The type in which a tensor and a number are combined, and the number in it."""
        key = (dtype.name, number.__class__, number, math.copysign(1, number), number_first, div_or_mod)
        if key not in known:
            types = (self.to_tensor_type(number), True, dtype, False)
            kind = computed(self, *(types if number_first else (*types[2:], *types[:2])), div_or_mod)
            known[key] = kind, self._cast_to_computation_type(number, kind)
        return known[key]

    def computed(self: Any, a: Any, a_is_scalar: bool, b: Any, b_is_scalar: bool, div_or_mod: bool) -> Any:
        key = (a.name, a_is_scalar, b.name, b_is_scalar, div_or_mod)
        if key not in known:
            known[key] = computation_type(self, a, a_is_scalar, b, b_is_scalar, div_or_mod)
        return known[key]

    def broadcasted(self: Any, lhs: Any, rhs: Any) -> tuple[Any, Any]:
        if lhs.shape is rhs.shape:
            return lhs, rhs
        if lhs.type.is_block() == rhs.type.is_block():
            return broadcast(self, lhs, rhs)
        return (lhs, splat(self, rhs, lhs)) if lhs.type.is_block() else (splat(self, lhs, rhs), rhs)

    def splat(self: Any, scalar: Any, like: Any) -> Any:
        sizes = like.type.__dict__.get("sizes") or tuple(like.type.shape)
        blocks = scalar.__dict__.setdefault("blocks", {})
        if sizes not in blocks:
            made = self.builder.create_splat(SimpleNamespace(shape=sizes), scalar.handle)
            blocks[sizes] = made, block_type(scalar.dtype, list(sizes))
        return tensor(*blocks[sizes])

    semantic.binary_op_type_checking_impl = promoted
    semantic.computation_type_impl = computed
    semantic.broadcast_impl_value = broadcasted


def _remember_constants(semantic: Any, core: Any) -> None:
    """Make the tensor of a constant once for each value and type: no operation writes into its operands."""
    make = semantic.scalar_constant
    known: dict[tuple[object, ...], Any] = {}

    def remembered(self: Any, value: Any, dtype: Any) -> Any:
        if value.__class__ not in (int, float, bool) or dtype is None or value != value:
            return make(self, value, dtype)
        key = (value.__class__, value, math.copysign(1, value), dtype.name)
        if key not in known:
            known[key] = make(self, value, dtype)
        return known[key]

    semantic.scalar_constant = remembered


def _remember_casts_of_scalars(semantic: Any, core: Any) -> None:
    """Convert a scalar once for each type, and nothing that has the type already."""
    cast, tensor = semantic.cast, core.tensor

    def remembered(self: Any, input: Any, dst_ty: Any, fp_downcast_rounding: Any = None) -> Any:
        if input.__class__ is not tensor or fp_downcast_rounding is not None:
            return cast(self, input, dst_ty, fp_downcast_rounding)
        kind = dst_ty.scalar
        if input.dtype is kind:
            return input
        if input.type.is_block() or kind.is_ptr():
            return cast(self, input, dst_ty)
        casts = input.__dict__.setdefault("casts", {})
        if kind.name not in casts:
            casts[kind.name] = cast(self, input, dst_ty)
        return casts[kind.name]

    semantic.cast = remembered


def _make_handles_quickly(interpreter: Any, core: Any) -> None:
    """Check the size of an array's items without three calls of functions."""
    pointer = core.pointer_type
    check = interpreter.TensorHandle.__post_init__

    def init(self: Any, data: Any, dtype: Any, attr: dict[str, Any] | None = None) -> None:
        self.data, self.dtype, self.attr = data, dtype, {} if attr is None else attr
        if dtype.__class__ is not pointer and data.itemsize * 8 > dtype.primitive_bitwidth:
            check(self)

    interpreter.TensorHandle.__init__ = init


def _shift_bits(convert: Callable[..., Any], core: Any) -> Callable[..., Any]:
    """Convert between float32 and bfloat16, of one range of exponents, by a shift unless a number is subnormal."""

    @wraps(convert)
    def shifted(given: Any, source: Any, target: Any, rounding_mode: Any) -> Any:
        if rounding_mode is None and source is core.float32 and target is core.bfloat16:
            bits = np.ascontiguousarray(given).view(np.uint32)
            if not ((bits & np.uint32(0x7FFFFFFF)) - np.uint32(1) < np.uint32(0x007FFFFF)).any():
                return (bits >> np.uint32(16)).astype(np.uint16).reshape(given.shape)
        elif rounding_mode is None and source is core.bfloat16 and target is core.float32:
            bits = np.ascontiguousarray(given).view(np.uint16)
            if not ((bits & np.uint16(0x7FFF)) - np.uint16(1) < np.uint16(0x007F)).any():
                return (bits.astype(np.uint32) << np.uint32(16)).reshape(given.shape)
        return convert(given, source, target, rounding_mode)

    return shifted


def _check_overflow(self: Any, lhs: Any, rhs: Any, binary_op: Callable[..., Any]) -> None:
    """Assert that the sum, difference or product of integers of up to 32 bits has room in their type."""
    kind = lhs.type.scalar
    if kind.int_bitwidth >= 64:
        return
    assert kind == rhs.type.scalar
    assert kind.is_int()
    left, right = lhs.handle.data, rhs.handle.data
    name = binary_op.__name__
    if left.size == 1 == right.size:
        one, two = int(left.item()), int(right.item())
        least = most = one + two if name == "add" else one - two if name == "sub" else one * two
        assert name in ("add", "sub", "mul")
    else:
        operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
        found = operation(left.astype(np.int64), right.astype(np.int64))
        least, most = found.min(), found.max()
    inside = kind.get_int_min_value() <= least and most <= kind.get_int_max_value()
    assert inside, f"int{kind.int_bitwidth} overflow detected for operation {name}"
