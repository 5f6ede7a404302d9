"""The floor of the inside algorithm, counted by hand for the smallest charts."""

import pytest

from benchmarking.sizes import Size
from floors import inside_floor


def test_flops_alone() -> None:
    """Two words: four rows of words, one product forward and two backward, and memory that costs nothing."""
    size = Size(2, 2, 3, 5)
    found = inside_floor(size, tflops=1e-9, tbytes=1e9)  # 1000 flops a second
    assert found.products_ms == pytest.approx(3 * 2 * 4 * 5 * 6)
    assert found.flops_ms == pytest.approx(found.products_ms)
    assert found.splits_ms == pytest.approx(0, abs=1e-9)


def test_bytes_alone() -> None:
    """Three words: rules are read for words and for pairs, in each direction; four splits have six rows each."""
    size = Size(1, 3, 2, 4)
    found = inside_floor(size, tflops=1e9, tbytes=1e-9, item=2)  # 1000 bytes a second
    words = 2 * (3 * 4 + 4 * 4 + 3 * 4)
    pairs = 2 * (2 * 2 + 2 * 4 + 2 * 4)
    gradient = 2 * (4 * 3 + 3 * 4 + 4 * 4) + 2 * (4 * 2 + 2 * 2 + 4 * 2)
    assert found.products_ms == pytest.approx(2 * words + 2 * pairs + gradient)
    assert found.splits_ms == pytest.approx(4 * 6 * 2 * 2 / 2)
    assert found.total_ms == pytest.approx(found.products_ms + found.splits_ms)
