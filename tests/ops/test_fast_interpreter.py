"""What the tests change in Triton's interpreter keeps its checks."""

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled beside a GPU")


@triton.jit
def combine_kernel(a, b, out, OPERATION: tl.constexpr):
    places = tl.arange(0, 4)
    left, right = tl.load(a + places), tl.load(b + places)
    if OPERATION == "add":
        found = left + right
    elif OPERATION == "sub":
        found = left - right
    else:
        found = left * right
    tl.store(out + places, found)


@pytest.mark.parametrize(
    ("operation", "a", "b"), [("add", 2**31 - 2, 1), ("sub", 1 - 2**31, 1), ("mul", 2**15, 2**16 - 1)]
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_overflow_of_32_bits_is_an_error(operation: str, a: int, b: int, dtype: torch.dtype) -> None:
    left, right = torch.tensor([3, a, 5, 7]), torch.tensor([2, b, 1, 4])
    expected = {"add": left + right, "sub": left - right, "mul": left * right}[operation]
    out = torch.empty(4, dtype=dtype)
    combine_kernel[(1,)](left.to(dtype), right.to(dtype), out, operation)
    assert out.tolist() == expected.tolist()
    right[1] += 1
    if dtype == torch.int64:
        combine_kernel[(1,)](left, right, out, operation)
        return
    with pytest.raises(triton.runtime.interpreter.InterpreterError, match=f"int32 overflow .* {operation}"):
        combine_kernel[(1,)](left.to(dtype), right.to(dtype), out, operation)


@triton.jit
def scalar_sum_kernel(a, b, out):
    tl.store(out, tl.load(a) + tl.load(b))


def test_overflow_of_scalars_is_an_error() -> None:
    largest, one, out = torch.tensor([2**31 - 1]), torch.tensor([1]), torch.empty(1, dtype=torch.int64)
    scalar_sum_kernel[(1,)](largest, one, out)
    assert out.tolist() == [2**31]
    with pytest.raises(triton.runtime.interpreter.InterpreterError, match=r"int32 overflow .* add"):
        scalar_sum_kernel[(1,)](largest.int(), one.int(), out)


@triton.jit
def promotion_kernel(narrow, wide, count, out):
    places = tl.arange(0, 2)
    here, one = tl.load(narrow + places), tl.load(wide + 1)  # bfloat16, and a float32 of 1
    tl.store(out + places, here / 3)  # a quotient of bfloat16 is computed in float32
    tl.store(out + 2 + places, here + tl.load(wide + places))
    tl.store(out + 4 + places, tl.load(count).to(tl.int64) + places + 0.5)
    tl.store(out + 6, one * 0.0)
    tl.store(out + 7, one * -0.0)


def test_types_of_results() -> None:
    narrow, wide = torch.tensor([1.5, 3.015625], dtype=torch.bfloat16), torch.tensor([2**-20, 1.0])
    out = torch.ones(8)
    promotion_kernel[(1,)](narrow, wide, torch.tensor([7], dtype=torch.int32), out)
    assert torch.equal(out, torch.cat([narrow.float() / 3, narrow.float() + wide, torch.tensor([7.5, 8.5, 0.0, 0.0])]))
    assert out.signbit().tolist() == [False] * 7 + [True]  # constants that compare equal are not one


@pytest.mark.parametrize("subnormal", [False, True])
def test_bfloat16_is_what_the_interpreter_makes_of_it(subnormal: bool) -> None:
    """Of all numbers of 16 bits, and of many of 32."""
    shifted = triton.runtime.interpreter._convert_float
    narrow = np.arange(2**16, dtype=np.uint16)
    generator = np.random.default_rng(0)
    wide = np.concatenate([narrow.astype(np.uint32) << 16, generator.integers(0, 2**32, 2**16, dtype=np.uint32)])
    if not subnormal:
        narrow, wide = narrow[~is_subnormal(narrow, 7)], wide[~is_subnormal(wide, 23)]
    given = [(narrow, tl.bfloat16, tl.float32, None), (wide.view(np.float32), tl.float32, tl.bfloat16, None)]
    for arguments in given:
        found, expected = shifted(*arguments), shifted.__wrapped__(*arguments)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert (found == expected).all()


def is_subnormal(bits: np.ndarray, mantissa: int) -> np.ndarray:
    magnitude = bits & ((1 << (8 * bits.itemsize - 1)) - 1)
    return (magnitude > 0) & (magnitude < 1 << mantissa)


@triton.jit
def scalar_kernel(count, out):
    places = tl.arange(0, 4)
    for step in range(2):
        tl.store(out + 4 * step + places, count * step + places.to(tl.float32) + count)


def test_scalars_are_converted_anew_in_every_launch() -> None:
    out = torch.empty(8)
    for count in (3, 2**20, 7):
        scalar_kernel[(1,)](count, out)
        assert out.tolist() == [float(count * (step + 1) + place) for step in range(2) for place in range(4)]
