"""Calibration of span probabilities, and symbols against gold labels, counted by hand."""

import pytest
import torch

from simplepcfg.data.trees import SpanTree
from simplepcfg.evaluation.calibration import calibration
from simplepcfg.evaluation.symbol_labels import NO_CONSTITUENT, OTHER, symbol_labels

GOLD = SpanTree(("a", "b", "c", "d"), ("X",) * 4, ((0, 4, "S"), (0, 2, "NP-SBJ"), (0, 2, "QP"), (2, 4, "VP")))


def test_bins() -> None:
    table = torch.zeros(5, 5)
    table[0, 2], table[2, 4], table[1, 3], table[0, 3], table[1, 4], table[0, 4] = 1.0, 0.95, 0.1, 0.1, 0.95, 1.0
    found = calibration([GOLD], [table])
    assert [item.spans for item in found.bins] == [2, 3]  # the whole sentence does not count
    assert [item.share for item in found.bins] == [0.0, pytest.approx(2 / 3)]
    assert found.bins[1].probability == pytest.approx(2.9 / 3)
    assert found.error == pytest.approx((2 * 0.1 + 3 * (2.9 - 2) / 3) / 5)


def test_perfect_and_empty() -> None:
    table = torch.zeros(6, 6)  # one larger than the sentence, as with <eos>
    table[0, 2] = table[2, 4] = 1.0
    assert calibration([GOLD], [table]).error == 0
    assert calibration([], []).bins == ()


def test_symbols() -> None:
    predicted = [[(0, 4, "NT-1"), (0, 2, "NT-2"), (2, 4, "NT-2"), (1, 3, "NT-3"), (0, 1, "NT-3")]] * 3
    found = symbol_labels([GOLD] * 3, predicted)
    assert found.counts["NT-2"] == {"NP": 3, "VP": 3}
    assert found.counts["NT-3"] == {NO_CONSTITUENT: 3}
    assert found.accuracy == pytest.approx(6 / 9)
    rows, columns, shares = found.table(2, 1)
    assert rows == ["NT-2", "NT-1"]
    assert len(columns) == 3
    assert columns[-2:] == [OTHER, NO_CONSTITUENT]
    assert all(sum(row) == pytest.approx(1) for row in shares)
    assert symbol_labels([], []).accuracy == 0
