"""Classes of words that are not in a vocabulary, by what they look like.

`<unk-ing>`, `<unk-cap>` and `<unk-digit-s>` are told by a list of English endings; `<unk:-ung>` and `<unk:cap:-ung>`
by endings that many rare words of a training text have, in any language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

_BEFORE, _AFTER = "<unk-", ">"
_LEARNED = "<unk:"
# English endings that tell a part of speech, the longest that fits counts. A stem of two letters must be left.
_LISTED = """
    ing ed ly tion sion ness ment able ible ous ive al er est ity ies ism ist ful less ary ory ic ish en an or es s y
"""
_ENDINGS = tuple(sorted(_LISTED.split(), key=len, reverse=True))
LEAST_TYPES = 2  # different words that share a class, or it is not kept: one word alone is `<unk>`
LONGEST_ENDING, LEAST_STEM = 4, 2  # letters
LEAST_SHARE = 0.003  # of the different unknown words of a text, which must share an ending, or it is not kept
_NUMERIC = re.compile(r"\d|N(?![^\W\d_])")  # a digit, or the N that stands for a number


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
    return word.startswith((_BEFORE, _LEARNED)) and word.endswith(_AFTER)


def is_learned_class(word: str) -> bool:
    """Return whether a word of a vocabulary is a class whose ending was learned from a text."""
    return word.startswith(_LEARNED) and word.endswith(_AFTER)


def possible_classes(word: str) -> Iterator[str]:
    """Yield the classes that an unknown word may have, the one with its longest ending first, at last that without.

    >>> list(possible_classes("Zeitung"))[1:]
    ['<unk:cap:-ung>', '<unk:cap:-ng>', '<unk:cap:-g>', '<unk:cap>']
    """
    marks = []
    if word[:1].isupper():
        marks.append("capitals" if len(word) > 1 and word.isupper() else "cap")
    if _NUMERIC.search(word):
        marks.append("digit")
    if "-" in word[1:-1]:
        marks.append("hyphen")
    before = "".join(f"{mark}:" for mark in marks)
    for size in range(min(LONGEST_ENDING, len(word) - LEAST_STEM), 0, -1):
        yield f"{_LEARNED}{before}-{word[-size:].lower()}{_AFTER}"
    yield f"{_LEARNED}{before[:-1] or 'plain'}{_AFTER}"


def learned_classes(words: Collection[str]) -> list[str]:
    """Return the classes of unknown words, in alphabetical order: those with an ending that many of the words have, and
    those without that two or more have whose endings are rarer."""
    shared = Counter(name for word in words for name in possible_classes(word) if ":-" in name)
    least = max(LEAST_TYPES, LEAST_SHARE * len(words))
    endings = {name for name, count in shared.items() if count >= least}
    rest = Counter(list(possible_classes(word))[-1] for word in words if endings.isdisjoint(possible_classes(word)))
    return sorted(endings | {name for name, count in rest.items() if count >= LEAST_TYPES})


def classes_of_rest(counts: Mapping[str, int], known: Collection[str]) -> list[str]:
    """Return the classes that two or more different words outside `known` share, in alphabetical order."""
    types = Counter(unknown_class(word) for word in counts if word not in known)
    return sorted(name for name, count in types.items() if count >= LEAST_TYPES)
