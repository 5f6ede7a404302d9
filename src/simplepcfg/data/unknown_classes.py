"""Classes of words that are not in a vocabulary, by what they look like: `<unk-ing>`, `<unk-cap>`, `<unk-digit-s>`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

_BEFORE, _AFTER = "<unk-", ">"
# English endings that tell a part of speech, the longest that fits counts. A stem of two letters must be left.
_LISTED = """
    ing ed ly tion sion ness ment able ible ous ive al er est ity ies ism ist ful less ary ory ic ish en an or es s y
"""
_ENDINGS = tuple(sorted(_LISTED.split(), key=len, reverse=True))
LEAST_TYPES = 2  # different words that share a class, or it is not kept: one word alone is `<unk>`


def unknown_class(word: str) -> str:
    """Return the class of an unknown word: whether it has a capital first, a digit or a hyphen, and its ending.

    >>> unknown_class("Brexiteering"), unknown_class("mid-N"), unknown_class("zq")
    ('<unk-cap-ing>', '<unk-hyphen>', '<unk-plain>')
    """
    marks = []
    if word[:1].isupper():
        marks.append("cap")
    if any(character.isdigit() for character in word):
        marks.append("digit")
    if "-" in word[1:-1]:
        marks.append("hyphen")
    lower = word.lower()
    ending = next((ending for ending in _ENDINGS if lower.endswith(ending) and len(lower) >= len(ending) + 2), None)
    if ending is not None:
        marks.append(ending)
    return f"{_BEFORE}{'-'.join(marks) or 'plain'}{_AFTER}"


def is_unknown_class(word: str) -> bool:
    """Return whether a word of a vocabulary is a class of unknown words."""
    return word.startswith(_BEFORE) and word.endswith(_AFTER)


def classes_of_rest(counts: Mapping[str, int], known: Collection[str]) -> list[str]:
    """Return the classes that two or more different words outside `known` share, in alphabetical order."""
    types = Counter(unknown_class(word) for word in counts if word not in known)
    return sorted(name for name, count in types.items() if count >= LEAST_TYPES)
