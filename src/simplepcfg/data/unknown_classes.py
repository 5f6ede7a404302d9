"""Classes of words that are not in a vocabulary, by what they look like.

`<unk:-ung>` and `<unk:cap:-ung>` are recognised by capitals, digits, hyphens and endings that many rare words of a
training text have, in any language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator

_BEFORE, _AFTER = "<unk:", ">"
LEAST_TYPES = 2  # different words that share a class, or it is not kept: one word alone is `<unk>`
LONGEST_ENDING, LEAST_STEM = 4, 2  # letters
LEAST_SHARE = 0.003  # of the different unknown words of a text, which must share an ending, or it is not kept
# In Chinese, Japanese and Korean a character is a syllable: one is stem enough, and words end in many more of them.
LEAST_SYLLABLE_SHARE = 0.001
_SYLLABLE = re.compile("[\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]")
_NUMERIC = re.compile(r"\d|N(?![^\W\d_])")  # a digit, or the N that stands for a number


def is_unknown_class(word: str) -> bool:
    """Return whether a word of a vocabulary is a class of unknown words."""
    return word.startswith(_BEFORE) and word.endswith(_AFTER)


def is_capitalised_class(word: str) -> bool:
    """Return whether a word of a vocabulary is a class of words that begin with a capital and are not all capitals."""
    return word.startswith((f"{_BEFORE}cap:", f"{_BEFORE}cap{_AFTER}"))


def possible_classes(word: str) -> Iterator[str]:
    """Yield the classes that an unknown word may have, the one with its longest ending first, at last that without.

    >>> list(possible_classes("Zeitung"))[1:]
    ['<unk:cap:-ung>', '<unk:cap:-ng>', '<unk:cap:-g>', '<unk:cap>']
    """
    return classes_of(*appearance(word))


def appearance(word: str) -> tuple[str, str]:
    """Return what decides the classes of a word: its marks, each with a colon, and the longest ending in lower case."""
    marks = ""
    if word[:1].isupper():
        marks = "capitals:" if len(word) > 1 and word.isupper() else "cap:"
    if not word.isalpha() or "N" in word:
        marks += "digit:" if _NUMERIC.search(word) else ""
        marks += "hyphen:" if "-" in word[1:-1] else ""
    stem = 1 if _SYLLABLE.match(word[-1:]) else LEAST_STEM
    return marks, word[stem:][-LONGEST_ENDING:].lower()


def classes_of(marks: str, ending: str) -> Iterator[str]:
    """Yield the possible classes of words that look like this."""
    for start in range(len(ending)):
        yield f"{_BEFORE}{marks}-{ending[start:]}{_AFTER}"
    yield f"{_BEFORE}{marks[:-1] or 'plain'}{_AFTER}"


def learned_classes(words: Collection[str]) -> list[str]:
    """Return the classes of unknown words, in alphabetical order: those with an ending that many of the words have, and
    those without an ending that two or more of the other words have."""
    shared = Counter(name for word in words for name in possible_classes(word) if ":-" in name)
    shares = {name: LEAST_SYLLABLE_SHARE if _SYLLABLE.match(name[-2]) else LEAST_SHARE for name in shared}
    endings = {name for name, count in shared.items() if count >= max(LEAST_TYPES, shares[name] * len(words))}
    rest = Counter(list(possible_classes(word))[-1] for word in words if endings.isdisjoint(possible_classes(word)))
    return sorted(endings | {name for name, count in rest.items() if count >= LEAST_TYPES})
