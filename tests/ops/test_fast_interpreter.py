"""What the tests change in Triton's interpreter keeps its checks."""

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
