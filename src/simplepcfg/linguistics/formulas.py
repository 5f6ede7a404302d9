"""The formulas of test suites: comparisons of sums of region surprisals, as in `[(6;%a%)-(6;%b%)]>0 & (7;%a%)<(7;%b%)`.

Grammar, from the loosest to the tightest; parentheses may stand in place of square brackets:

    formula    = conjunct { ("&" | "|") conjunct }      "&" binds tighter than "|"
    conjunct   = "[" formula "]" | comparison
    comparison = sum ("<" | ">" | "=") sum
    sum        = term { ("+" | "-") term }
    term       = "(" region ";%" condition "%)" | number | "[" sum "]" | "-" term

A region is a number, or `*` for all regions of the sentence. Python's parser makes the tree; no part of it is run.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from simplepcfg.errors import InputError
from simplepcfg.linguistics.accuracy import TIE

# The sum of surprisals of a region ("*" for all regions) in a condition.
RegionValue = Callable[[str, str], float]
_TOKEN = re.compile(r"\s*(?:\(\s*(\d+|\*)\s*;\s*%([^%]*)%\s*\)|(\d+(?:\.\d*)?|\.\d+)|([][()<>=&|+-]))")
_IN_PYTHON = {"=": "==", "&": "and", "|": "or"}
MOST_TOKENS = 300  # no formula of a person has as many, and the parser's recursion has an end


class Truth(NamedTuple):
    """The truth of a formula, and whether two sides that had to differ are equal up to rounding."""

    holds: bool
    tie: bool


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that has been read; call it with the surprisals of an item's regions."""

    regions: frozenset[tuple[str, str]]  # (region, condition) of all that it asks for
    asks_for_equality: bool
    _tree: ast.expr
    _names: dict[str, tuple[str, str]]  # the region and the condition of each name in the tree

    def __call__(self, value: RegionValue) -> Truth:
        """Tell whether the formula holds of an item, and whether it is a tie: equal sides make `<` and `>` false."""
        return _truth(self._tree, {name: value(*asked) for name, asked in self._names.items()})


def parse_formula(text: str) -> Formula:
    """Parse a formula; raise InputError if it is malformed."""
    start = f"formula {text[:80]!r}{'…' * (len(text) > 80)}:"
    names: dict[str, tuple[str, str]] = {}
    tokens, place = list[str](), 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None or len(tokens) == MOST_TOKENS:
            reason = "is not understood" if match is None else f"comes after {MOST_TOKENS} others; write it shorter"
            raise InputError(f"{start} {text[place:].strip()[:20]!r} {reason}")
        region, condition, number, mark = match.groups()
        if region is not None:
            names[f"r{len(names)}"] = region, condition
            tokens.append(f"r{len(names) - 1}")
        else:
            tokens.append(_IN_PYTHON.get(mark, mark) if mark is not None else repr(float(number)))
        place = match.end()
    try:
        tree = ast.parse(" ".join(tokens), mode="eval").body
        _truth(tree, dict.fromkeys(names, 0.0))
    except (SyntaxError, TypeError):
        raise InputError(f"{start} give comparisons (<, >, =) of sums of regions, joined by & and |") from None
    return Formula(frozenset(names.values()), "==" in tokens, tree, names)


def _truth(node: ast.expr, values: dict[str, float]) -> Truth:
    """Tell whether a formula holds; raise TypeError for anything else than a formula."""
    match node:
        case ast.List(elts=[inner]):
            return _truth(inner, values)
        case ast.BoolOp(op=joined, values=parts):
            truths = [_truth(part, values) for part in parts]
            rule = all if isinstance(joined, ast.And) else any
            return Truth(rule(each.holds for each in truths), any(each.tie for each in truths))
        case ast.Compare(left=left, ops=[mark], comparators=[right]):
            one, other = _sum(left, values), _sum(right, values)
            difference = 0.0 if one == other else one - other
            # Two infinite surprisals have no difference: nothing is known, as between equal ones.
            equal = math.isnan(difference) or abs(difference) <= TIE
            if isinstance(mark, ast.Eq):
                return Truth(equal, False)
            return Truth(not equal and (difference < 0) == isinstance(mark, ast.Lt), equal)
    raise TypeError(node)


def _sum(node: ast.expr, values: dict[str, float]) -> float:
    """Return the value of a sum of regions and numbers; raise TypeError for anything else."""
    match node:
        case ast.List(elts=[inner]):
            return _sum(inner, values)
        case ast.BinOp(left=left, op=sign, right=right):
            return _sum(left, values) + (1 if isinstance(sign, ast.Add) else -1) * _sum(right, values)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_sum(inner, values)
        case ast.Constant(value=float(number)):
            return number
        case ast.Name(id=name):
            return values[name]
    raise TypeError(node)
