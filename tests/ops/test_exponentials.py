"""Unnormalised exponentials of a matrix product: a softmax up to a factor for each row, for logits of any size."""

import math

import pytest
import torch
from torch import Tensor

from simplepcfg.ops.neural import exponentials
from simplepcfg.ops.neural.exponentials import exponentials_of_product
from simplepcfg.ops.products import aligned_rows


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are several tiles of rows and columns."""
    monkeypatch.setattr(exponentials, "TILE", (16, 16, 16))
    monkeypatch.setattr(exponentials, "FIRST_LOGITS", 16)


def operands(rows: int, columns: int, width: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows + columns)
    a, b = (torch.randn(count, width, generator=generator) * scale for count in (rows, columns))
    return a.bfloat16(), b.bfloat16()


def check(a: Tensor, b: Tensor) -> Tensor:
    """Against float64; gives the factors."""
    out = aligned_rows(a, a.shape[0], b.shape[0], torch.bfloat16)
    log_sums, factors = exponentials_of_product(a, b, out)
    logits = a.double() @ b.double().T
    torch.testing.assert_close(log_sums.double(), logits.logsumexp(-1), rtol=1e-6, atol=1e-5)
    found = out.double() * factors.double().unsqueeze(-1)
    torch.testing.assert_close(found, logits.softmax(-1), rtol=2**-7, atol=1e-30)
    alone = exponentials_of_product(a, b, None)
    assert torch.equal(alone[0], log_sums)
    assert torch.equal(alone[1], factors)
    return factors


@pytest.mark.parametrize("programs", [1, 7, 64])
@pytest.mark.parametrize("size", [(1, 1, 1), (16, 16, 16), (21, 40, 24), (33, 33, 32)])
def test_is_a_softmax(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int, int], programs: int) -> None:
    monkeypatch.setattr(exponentials, "PROGRAMS", programs)
    check(*operands(*size))


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")
@pytest.mark.parametrize("distance", [0.0, 200.0])
def test_columns_are_left_out(distance: float) -> None:
    """They are 0, and counted in the sums all the same; also where rows are recomputed."""
    a, b = operands(34, 40, 24, scale=0.3)
    a[::3, 0], b[35, 0] = 1.0, distance
    left_out = torch.zeros(40, dtype=torch.int8)
    left_out[[0, 17, 35, 39]] = 1
    every, some = (aligned_rows(a, 34, 40, torch.bfloat16) for _ in range(2))
    truth, found = exponentials_of_product(a, b, every), exponentials_of_product(a, b, some, left_out)
    assert all(torch.equal(one, two) for one, two in zip(found, truth, strict=True))
    assert torch.equal(some, every.masked_fill(left_out > 0, 0.0))


def test_more_numbers_than_32_bits_count_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = operands(48, 33, 24)
    whole = check(a, b)
    monkeypatch.setattr(exponentials, "MOST_NUMBERS", 20 * 24)
    assert torch.equal(check(a, b), whole)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")
@pytest.mark.parametrize("distance", [30.0, 60.0, 64.0, 90.0, 500.0])
def test_first_logits_may_be_far_below_others(distance: float) -> None:
    """Up to some distance exponentials are large, beyond it they are recomputed; their sums never overflow."""
    a, b = operands(32, 40, 24, scale=0.3)
    a[:, 0], b[:, 0] = 1.0, 0.0
    b[35, 0] = distance
    a[16:, 0] = 0.0  # the lower half of the rows does not see it
    factors = check(a, b)
    assert float(factors.min()) > 2.0**-90


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")
@pytest.mark.parametrize("listed", [16, 64])
@pytest.mark.parametrize("parts", [1, 2, 64])
def test_only_rows_that_overflowed_are_recomputed(monkeypatch: pytest.MonkeyPatch, parts: int, listed: int) -> None:
    """The others stay the same, bit for bit."""
    monkeypatch.setattr(exponentials, "RECOMPUTED_PARTS", parts)
    monkeypatch.setattr(exponentials, "ROWS_LISTED", listed)
    a, b = operands(34, 40, 24, scale=0.3)
    a[:, 0], b[:, 0] = 0.0, 0.0
    before = check(a, b)
    overflowed = [0, 3, *range(5, 33, 2), 33]  # more than a list of 16
    a[overflowed, 0], b[35, 0] = 1.0, 200.0
    after = check(a, b)
    rest = [row for row in range(34) if row not in overflowed]
    assert torch.equal(after[rest], before[rest])


@pytest.mark.filterwarnings("ignore:All-NaN slice encountered:RuntimeWarning")
def test_a_row_of_nan_leaves_the_others_alone() -> None:
    a, b = operands(40, 70, 24)
    a[3] = math.nan
    out = aligned_rows(a, 40, 70, torch.bfloat16)
    log_sums, factors = exponentials_of_product(a, b, out)
    rest = [row for row in range(40) if row != 3]
    logits = a[rest].double() @ b.double().T
    assert bool(log_sums[3].isnan())
    assert bool(out[3].isnan().all())
    torch.testing.assert_close(log_sums[rest].double(), logits.logsumexp(-1), rtol=1e-6, atol=1e-5)
    found = out[rest].double() * factors[rest].double().unsqueeze(-1)
    torch.testing.assert_close(found, logits.softmax(-1), rtol=2**-7, atol=1e-30)
