"""The formulas of test suites: what they mean, and what is refused."""

import math

import pytest

from simplepcfg.errors import InputError
from simplepcfg.linguistics.formulas import parse_formula

VALUES = {
    ("1", "a"): 2.0,
    ("2", "a"): 5.0,
    ("1", "b"): 3.0,
    ("2", "b"): 3.5,
    ("1", "what_no-gap"): 1.0,
    ("*", "a"): 7.0,
}


def truth(text: str, values: dict[tuple[str, str], float] = VALUES) -> tuple[bool, bool]:
    found = parse_formula(text)(lambda region, condition: values[region, condition])
    return found.holds, found.tie


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("(1;%a%) < (1;%b%)", True),
        ("(1;%a%) > (1;%b%)", False),
        ("[ (1;%a%) + (2;%a%) ] > [ (1;%b%) + (2;%b%) ]", True),
        ("[(2;%a%)-(1;%a%)]-[[(2;%b%)-(1;%b%)]+[(1;%b%)-(1;%a%)]]>0", True),
        ("(2;%a%) - (1;%a%) - (1;%b%) = 0", True),  # from left to right
        ("(2;%a%) - [(1;%a%) - (1;%b%)] = 6", True),
        ("(2;%a%)-((1;%a%)-(1;%b%))=6.0", True),
        ("[(1;%a%)<(1;%b%)] & [(2;%a%)<(2;%b%)]", False),
        ("[(1;%a%)<(1;%b%)] | [(2;%a%)<(2;%b%)]", True),
        ("(1;%a%)<(1;%b%) | (1;%a%)<(1;%b%) & (1;%a%)>(1;%b%)", True),  # & binds tighter
        ("[(1;%a%)<(1;%b%) | (1;%a%)<(1;%b%)] & (1;%a%)>(1;%b%)", False),
        ("[[(1;%a%) - (1;%b%)] < [(2;%a%) - (2;%b%)]]", True),
        ("( 1 ; %what_no-gap% ) < -[(1;%a%)] + 3.5", True),
        ("(*;%a%) = 7", True),
        ("-(1;%a%) < .5", True),
    ],
)
def test_what_formulas_mean(text: str, holds: bool) -> None:
    assert truth(text) == (holds, False)


@pytest.mark.parametrize("mark", ["<", ">"])
def test_equal_sides_are_ties_and_wrong(mark: str) -> None:
    assert truth(f"(1;%a%) {mark} 2.00005") == (False, True)
    assert truth(f"[(1;%a%) {mark} 2] | [(1;%a%) < (1;%b%)]") == (True, True)
    infinite = {("1", "a"): math.inf, ("2", "a"): math.inf}
    assert truth(f"(1;%a%) {mark} (2;%a%)", infinite) == (False, True)
    assert truth(f"(1;%a%) - (2;%a%) {mark} 0", infinite) == (False, True)


def test_what_a_formula_asks_for() -> None:
    found = parse_formula("[(6;%x%) = (7;%y%)] & (6;%x%) > 0")
    assert found.regions == {("6", "x"), ("7", "y")}
    assert found.asks_for_equality
    assert not parse_formula("(6;%x%) > (7;%y%)").asks_for_equality


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(1;%a%)",
        "(1;%a%) <",
        "< (1;%a%)",
        "(1;%a%) < (1;%b%) <",
        "(1;%a%) < (1;%b%) (1;%a%)",
        "[(1;%a%) < (1;%b%)",
        "[(1;%a%) < (1;%b%))",
        "(1;%a%) < (1;%b%) &",
        "[(1;%a%) < (1;%b%)] < 0",
        "(one;%a%) < 0",
        "__import__('os') < 0",
        "(1;%a%) * 2 < 0",
        "[" * 5000 + "(1;%a%)" + "]" * 5000 + "<0",
        "[" * 5000 + "(1;%a%)<0" + "]" * 5000,
        "-" * 5000 + "(1;%a%)<0",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="formula") as caught:
        parse_formula(text)
    assert "\n" not in str(caught.value)
