"""Plots in characters, and trees as images."""

import math

import pytest

from simplepcfg.drawing.text_plot import text_plot


def test_a_falling_curve() -> None:
    lines = text_plot([100.0, 50.0, 25.0, 12.5], width=10, height=4)
    assert len(lines) == 4
    assert lines[0].startswith("100.0 ┤")
    assert lines[-1].startswith(" 12.5 ┤")
    drawn = [[ord(character) - 0x2800 for character in line.split("┤")[1]] for line in lines]
    assert drawn[0][0]
    assert drawn[-1][-1]
    assert not drawn[0][-1]
    assert not drawn[-1][0]
    assert all(any(row[column] for row in drawn) for column in range(10))  # a line without gaps


@pytest.mark.parametrize("count", [2, 3, 19, 20, 21, 5000])
def test_any_number_of_values(count: int) -> None:
    lines = text_plot([1.0 + index for index in range(count)], width=10, height=3)
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize("values", [[], [3.0], [math.nan, 2.0], [math.inf] * 5, [0.0, -1.0]])
def test_too_little_to_draw(values: list[float]) -> None:
    assert text_plot(values, 10, 3) == ["", "", ""]


def test_a_constant() -> None:
    assert len(text_plot([5.0] * 9, 10, 3)) == 3
