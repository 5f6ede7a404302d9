"""Constraints on a sentence's tree: spans it must have, must not have, or is rewarded for."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import cast

import torch
from torch import Tensor

from simplepcfg.data.preprocessing import Prepared
from simplepcfg.errors import InputError, counted

Span = tuple[int, int]

KEYS = ("require", "forbid", "bonus")
# Beyond this a bonus would leave float32 no digits for the rest of the tree.
MOST_BONUS = 10_000.0
EXAMPLE = '{"require": [[0, 3]], "forbid": [[3, 5]], "bonus": [[0, 2, 1.5]]}'


@dataclass(frozen=True, slots=True)
class Constraints:
    """Spans of one sentence, half-open over its words as they were given, punctuation counted.

    A bonus is added to the log-weight of every tree that has the span, in nats.
    """

    require: tuple[Span, ...] = ()
    forbid: tuple[Span, ...] = ()
    bonus: tuple[tuple[int, int, float], ...] = ()

    @classmethod
    def from_mapping(cls, value: object) -> Constraints:
        """Return the constraints of a mapping with any of the keys "require", "forbid" and "bonus".

            Constraints.from_mapping({"require": [[0, 3]], "forbid": [[3, 5]], "bonus": [[0, 2, 1.5]]})

        Raises InputError for another key or an entry that is no span.
        """
        if not isinstance(value, Mapping):
            raise InputError(f"{value!r} is no object; write constraints as {EXAMPLE}")
        unknown = next((key for key in value if key not in KEYS), None)
        if unknown is not None:
            raise InputError(f"{unknown!r} is no constraint; take one of {', '.join(KEYS)}")
        spans: dict[str, list[tuple[int, int, float]]] = {}
        for key in KEYS:
            items = value.get(key, [])
            if not isinstance(items, list | tuple):
                raise InputError(f"{key} is {items!r}; it must be a list of spans, as in {EXAMPLE}")
            spans[key] = [_checked(key, item) for item in items]
        return cls(
            tuple((i, j) for i, j, _ in spans["require"]),
            tuple((i, j) for i, j, _ in spans["forbid"]),
            tuple(spans["bonus"]),
        )

    def __bool__(self) -> bool:
        """Tell whether there is any constraint."""
        return bool(self.require or self.forbid or self.bonus)

    def token_bonus(self, prepared: Prepared) -> Tensor | None:
        """Return the log-weight of each span over the tokens of a sentence, [tokens + 1, tokens + 1].

        What the model does not see, such as dropped punctuation, is taken out of every span; a span that then has less
        than two words asks for nothing. None where nothing is asked for.
        """
        if not self:
            return None
        n = len(prepared.kept)
        table = torch.zeros(n + 1, n + 1)
        required: dict[Span, Span] = {}  # and as the user wrote them
        for span in self.require:
            i, j = _mapped(span, prepared)
            if 2 <= j - i < n:
                for (a, b), written in required.items():
                    if a < i < b < j or i < a < j < b:
                        pair = f"{list(written)} and {list(span)}"
                        raise InputError(f"the required spans {pair} cross; give up one of them")
                required[i, j] = span
                table[:i, i + 1 : j] = -math.inf
                table[i + 1 : j, j + 1 :] = -math.inf
        for span in self.forbid:
            i, j = _mapped(span, prepared)
            if span[1] - span[0] == 1 or j - i == n > 1:
                what = "one word" if span[1] - span[0] == 1 else "the whole sentence"
                raise InputError(f"forbid {list(span)} is {what}, which every tree has; leave it out")
            if (i, j) in required:
                raise InputError(f"{list(span)} is both required and forbidden; choose one")
            if j - i >= 2:
                table[i, j] = -math.inf
        for start, end, value in self.bonus:
            i, j = _mapped((start, end), prepared)
            if j - i >= 2:
                table[i, j] += value
        if n < 2:
            return None
        if len(prepared.tokens) > n:
            table = _with_ending(table)
        if not has_tree(table > -math.inf):
            raise InputError("the constraints leave no tree for this sentence; allow more spans")
        return table


def _mapped(span: Span, prepared: Prepared) -> Span:
    """Return a span of words as a span of kept words."""
    i, j = span
    if j > len(prepared.words):
        raise InputError(f"span {[i, j]} ends beyond the sentence, which has {counted(len(prepared.words), 'word')}")
    return bisect_left(prepared.kept, i), bisect_left(prepared.kept, j)


def token_bonuses(
    constraints: Sequence[Constraints | Mapping[str, object] | None], sentences: Sequence[Prepared]
) -> list[Tensor | None]:
    """Return the bonus of each sentence, [tokens + 1, tokens + 1], or None; dictionaries are taken for constraints.

    Raises InputError if the constraints of a sentence allow no tree, or their number is not that of the sentences.
    """
    if len(constraints) != len(sentences):
        raise InputError(
            f"{counted(len(constraints), 'constraint')} for {counted(len(sentences), 'sentence')}; give one for each"
            ", or None"
        )
    bonuses: list[Tensor | None] = []
    for number, (item, prepared) in enumerate(zip(constraints, sentences, strict=True)):
        try:
            if item is not None and not isinstance(item, Constraints):
                item = Constraints.from_mapping(item)
            bonuses.append(None if item is None else item.token_bonus(prepared))
        except InputError as error:
            raise InputError(f"sentence {number}: {error}") from None
    return bonuses


def stacked_bonuses(bonuses: Sequence[Tensor | None], n: int) -> Tensor | None:
    """Return the bonuses of a batch as one tensor [B, n + 1, n + 1]; None if no sentence has one."""
    if all(bonus is None for bonus in bonuses):
        return None
    stacked = torch.zeros(len(bonuses), n + 1, n + 1)
    for row, bonus in zip(stacked, bonuses, strict=True):
        if bonus is not None:
            row[: bonus.shape[0], : bonus.shape[1]] = bonus
    return stacked


def has_tree(allowed: Tensor) -> bool:
    """Return whether a binary tree can be made of the allowed spans of a sentence, [n + 1, n + 1] of bool."""
    posts = allowed.shape[0]
    made = torch.eye(posts, dtype=torch.bool).roll(1, 1)  # single words; each span (i, j) is also marked at (j, i)
    made = made | made.T
    for width in range(2, posts):
        stride, size = (posts + 1, 1), (posts - width, width - 1)
        before = made.as_strided(size, stride, 1)  # (i, i + k)
        after = made.as_strided(size, stride, width * posts + 1)  # (i + k, i + width), marked at (i + width, i + k)
        covered = (before & after).any(1) & torch.diagonal(allowed, width)
        torch.diagonal(made, width).copy_(covered)
        torch.diagonal(made, -width).copy_(covered)
    return bool(made[0, posts - 1]) or posts <= 2


def _with_ending(table: Tensor) -> Tensor:
    """Return the table for tokens that end with an added `<eos>`: a span may include it or end before it.

    Where `<eos>` is attached to the span itself, the span with it and the span without it have the bonus.
    """
    n = table.shape[0] - 1
    longer = torch.zeros(n + 2, n + 2)
    longer[: n + 1, : n + 1] = table
    longer[: n - 1, n + 1] = table[: n - 1, n]
    longer[0, n] = 0.0
    return longer


def _checked(key: str, item: object) -> tuple[int, int, float]:
    """Return start, end and bonus of one entry; 0 where it has no bonus."""
    numbers = 3 if key == "bonus" else 2
    shape = "[start, end, bonus]" if key == "bonus" else "[start, end]"
    if not isinstance(item, list | tuple) or len(item) != numbers:
        raise InputError(f"{key} {item!r}: a span must be {shape}")
    start, end, value = (*item, 0.0)[:3]
    if any(isinstance(post, bool) or not isinstance(post, Integral) for post in (start, end)):
        raise InputError(f"{key} {item!r}: start and end must be whole numbers")
    if not 0 <= start < end:
        raise InputError(f"{key} {item!r}: a span needs 0 <= start < end")
    if isinstance(value, bool) or not isinstance(value, Real) or not abs(cast(float, value)) <= MOST_BONUS:
        limits = f"a number from {-MOST_BONUS:.0f} to {MOST_BONUS:.0f}"
        raise InputError(f"{key} {item!r}: the bonus must be {limits}; use forbid or require beyond it")
    return int(start), int(end), float(value)
