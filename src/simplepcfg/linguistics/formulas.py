"""The formulas of test suites: comparisons of sums of region surprisals, as in `[(6;%a%)-(6;%b%)]>0 & (7;%a%)<(7;%b%)`.

Grammar, from the loosest to the tightest; parentheses may stand in place of square brackets:

    formula    = conjunct { ("&" | "|") conjunct }      "&" binds tighter than "|"
    conjunct   = "[" formula "]" | comparison
    comparison = sum ("<" | ">" | "=") sum
    sum        = term { ("+" | "-") term }
    term       = "(" region ";%" condition "%)" | number | "[" sum "]" | "-" term

A region is a number, or `*` for all of a sentence's. No formula is handed to Python to evaluate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from simplepcfg.errors import InputError
from simplepcfg.linguistics.accuracy import TIE

# The sum of surprisals of a region ("*" for all regions) in a condition.
RegionValue = Callable[[str, str], float]
_TOKEN = re.compile(r"\s*(?:\(\s*(\d+|\*)\s*;\s*%([^%]*)%\s*\)|(\d+(?:\.\d*)?|\.\d+)|([][()<>=&|+-]))")
_CLOSING = {"[": "]", "(": ")"}
MOST_NESTED = 100  # brackets within brackets: no formula of a person has as many


class _Token(NamedTuple):
    kind: str  # "region", "number", or the character itself
    text: str = ""
    condition: str = ""


class Truth(NamedTuple):
    """The truth of a formula, and whether two sides that had to differ are equal up to rounding."""

    holds: bool
    tie: bool


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that has been read; call it with the surprisals of an item's regions."""

    text: str
    _evaluate: Callable[[RegionValue], Truth]
    regions: frozenset[tuple[str, str]]  # (region, condition) of all that it asks for
    asks_for_equality: bool

    def __call__(self, value: RegionValue) -> Truth:
        """Tell whether the formula holds of an item, and whether it is a tie: equal sides make `<` and `>` false."""
        return self._evaluate(value)


def parse_formula(text: str) -> Formula:
    """Read a formula; InputError says where it goes wrong."""
    parser = _Parser(text)
    evaluate = parser.formula(0)
    parser.expect_end()
    regions = frozenset((token.text, token.condition) for token in parser.tokens if token.kind == "region")
    return Formula(text.strip(), evaluate, regions, any(token.kind == "=" for token in parser.tokens))


class _Parser:
    """Recursive descent; a bracket is tried as one around a formula, then as one around a sum."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.tokens = list(self._tokens())
        self._place = 0

    def _tokens(self) -> Iterator[_Token]:
        place = 0
        while self._text[place:].strip():
            match = _TOKEN.match(self._text, place)
            if match is None:
                raise InputError(f"formula {self._text!r}: {self._text[place:].strip()[:20]!r} is not understood")
            region, condition, number, mark = match.groups()
            if region is not None:
                yield _Token("region", region, condition)
            else:
                yield _Token("number", number) if number is not None else _Token(mark)
            place = match.end()

    def _peek(self) -> str:
        return self.tokens[self._place].kind if self._place < len(self.tokens) else "its end"

    def _take(self) -> _Token:
        if self._place == len(self.tokens):
            raise self._error("a region, a number or a bracket")
        self._place += 1
        return self.tokens[self._place - 1]

    def _expect(self, kind: str) -> None:
        if self._peek() != kind:
            raise self._error(f"{kind!r}")
        self._place += 1

    def _error(self, expected: str) -> InputError:
        return InputError(f"formula {self._text!r}: expected {expected} but found {self._peek()!r}")

    def expect_end(self) -> None:
        if self._place < len(self.tokens):
            raise self._error("its end, & or |")

    def formula(self, depth: int) -> Callable[[RegionValue], Truth]:
        if depth > MOST_NESTED:
            raise InputError(f"formula {self._text[:40]!r}…: more than {MOST_NESTED} brackets within each other")
        condition = self._all(depth)
        while self._peek() == "|":
            self._place += 1
            condition = _joined(condition, self._all(depth), any)
        return condition

    def _all(self, depth: int) -> Callable[[RegionValue], Truth]:
        condition = self._conjunct(depth)
        while self._peek() == "&":
            self._place += 1
            condition = _joined(condition, self._conjunct(depth), all)
        return condition

    def _conjunct(self, depth: int) -> Callable[[RegionValue], Truth]:
        if self._peek() in _CLOSING and self._compares_inside():
            closing = _CLOSING[self._take().kind]
            condition = self.formula(depth + 1)
            self._expect(closing)
            return condition
        left = self._sum(depth)
        if self._peek() not in ("<", ">", "="):
            raise self._error("<, > or =")
        mark = self._take().kind
        return _comparison(left, mark, self._sum(depth))

    def _compares_inside(self) -> bool:
        """Tell whether the bracket here holds a comparison, so that it is around a formula and not around a sum."""
        depth = 0
        for token in self.tokens[self._place :]:
            depth += (token.kind in _CLOSING) - (token.kind in _CLOSING.values())
            if token.kind in ("<", ">", "="):
                return True
            if depth == 0:
                return False
        return False

    def _sum(self, depth: int) -> RegionSum:
        total = self._term(depth)
        while self._peek() in ("+", "-"):
            sign = 1.0 if self._take().kind == "+" else -1.0
            total = _added(total, sign, self._term(depth))
        return total

    def _term(self, depth: int) -> RegionSum:
        if depth > MOST_NESTED:
            raise InputError(f"formula {self._text[:40]!r}…: more than {MOST_NESTED} brackets within each other")
        if self._peek() not in ("region", "number", "-", *_CLOSING):
            raise self._error("a region, a number or a bracket")
        token = self._take()
        if token.kind == "region":
            return lambda value: value(token.text, token.condition)
        if token.kind == "number":
            constant = float(token.text)
            return lambda value: constant
        if token.kind == "-":
            inner = self._term(depth + 1)
            return lambda value: -inner(value)
        total = self._sum(depth + 1)
        self._expect(_CLOSING[token.kind])
        return total


RegionSum = Callable[[RegionValue], float]


def _added(left: RegionSum, sign: float, right: RegionSum) -> RegionSum:
    return lambda value: left(value) + sign * right(value)


def _comparison(left: RegionSum, mark: str, right: RegionSum) -> Callable[[RegionValue], Truth]:
    def compare(value: RegionValue) -> Truth:
        one, other = left(value), right(value)
        difference = 0.0 if one == other else one - other
        # Two infinite surprisals have no difference: nothing is known, as between equal ones.
        equal = math.isnan(difference) or abs(difference) <= TIE
        if mark == "=":
            return Truth(equal, False)
        return Truth(not equal and (difference < 0) == (mark == "<"), equal)

    return compare


def _joined(
    left: Callable[[RegionValue], Truth], right: Callable[[RegionValue], Truth], rule: Callable[[list[bool]], bool]
) -> Callable[[RegionValue], Truth]:
    def join(value: RegionValue) -> Truth:
        truths = [left(value), right(value)]
        return Truth(rule([each.holds for each in truths]), any(each.tie for each in truths))

    return join
