"""Words and their ids, and the readable file that keeps them."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from simplepcfg.data.readers import open_text
from simplepcfg.data.unknown_classes import appearance, classes_of, is_unknown_class, learned_classes
from simplepcfg.errors import InputError
from simplepcfg.files import write_text

PAD, UNK, EOS = "<pad>", "<unk>", "<eos>"
PAD_ID, UNK_ID = 0, 1
SPECIAL_WORDS = frozenset([PAD, UNK, EOS])
NUMBER = "N"  # what stands for a number
UNKNOWN_SHARE = 0.1  # of the tokens of a text, at most, are left out of a vocabulary that could hold all words


class Vocabulary:
    """Ids of words: `<pad>` is 0, `<unk>` is 1, then the words; whatever is not in it is `<unk>`.

    A vocabulary with classes of unknown words (`with_endings`) takes a word that it does not have for the same
    word in lower case.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)  # in the order of their ids, specials included
        if self.words[:2] != (PAD, UNK):
            raise InputError(f"a vocabulary must begin with {PAD} and {UNK}, not {' '.join(self.words[:2])!r}")
        self._ids = {word: index for index, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            repeated = next(word for word, count in Counter(self.words).items() if count > 1)
            raise InputError(f"the vocabulary lists {repeated!r} more than once; list it once")
        # Padding is not a word: where a text says "<pad>", it is an unknown one.
        self._ids[PAD] = UNK_ID
        self._class_ids: dict[tuple[tuple[str, str], tuple[str, str] | None], int] = {}  # by the looks of unknown words
        self.has_unknown_classes = any(map(is_unknown_class, self.words))

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], size: int | None = None, min_count: int = 1) -> Vocabulary:
        """Return the vocabulary of the `size` most frequent words that occur `min_count` times or more.

        A `min_count` of 0 is 1, except where all words would be known: then words that occur once are left out, up to a
        tenth of the text, because nothing could be learned about unknown words otherwise. Equal counts are ordered by
        the alphabet. `<pad>`, `<unk>` and `<eos>` do not count towards `size`, and `<eos>` is in whenever it occurs.
        Raises InputError for a size below 1 or a count below 0.
        """
        if size is not None and size < 1:
            raise InputError(f"vocabulary size = {size}; it must be 1 or more")
        if min_count < 0:
            raise InputError(f"vocabulary min_count = {min_count}; it must be 0 or more")
        frequent = [(-n, word) for word, n in counts.items() if n >= min_count and word not in SPECIAL_WORDS]
        words = [word for _, word in sorted(frequent)[:size]]
        if min_count == 0 and len(words) == len(frequent) and not counts.get(UNK, 0):
            left_out = _held_out_words(counts)
            words = [word for word in words if word not in left_out]
        ending = [EOS] if counts.get(EOS, 0) > 0 else []
        return cls([PAD, UNK, *ending, *words])

    @classmethod
    def with_endings(
        cls, counts: Mapping[str, int], size: int | None = None, min_count: int = 1, lowercase: bool = False
    ) -> Vocabulary:
        """Return the vocabulary as `from_counts` does, with classes of unknown words by endings learned from them.

        Words keep their case, on which the classes depend; with `lowercase` the vocabulary lists them in lower case.
        """
        folded: Counter[str] = Counter()
        for word, count in counts.items():
            folded[_lowered(word) if lowercase else word] += count
        known = cls.from_counts(folded, size, min_count).words
        listed = frozenset(known) | SPECIAL_WORDS
        rest = [word for word in counts if word not in listed and _lowered(word) not in listed]
        special = [word for word in known if word in SPECIAL_WORDS]
        return cls([*special, *learned_classes(rest), *known[len(special) :]])

    def __len__(self) -> int:
        """Number of ids, specials included."""
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        """Tell whether a word has an id, as `<unk>` and classes have, too: `knows` asks for words alone."""
        return word != PAD and (word in self._ids or (self.has_unknown_classes and str(word).lower() in self._ids))

    def listed(self, token: str) -> str:
        """Return a token as the vocabulary lists it, which may be without its capitals, or `<unk>`."""
        if token not in self:
            return UNK
        return token if token in self._ids else token.lower()

    def knows(self, word: str) -> bool:
        """Return whether a word is scored as itself; a text's own `<unk>` is not."""
        return word != UNK and word in self and not is_unknown_class(word)

    def __eq__(self, other: object) -> bool:
        """Compare two vocabularies; they are equal when every id means the same word."""
        return isinstance(other, Vocabulary) and self.words == other.words

    __hash__ = None  # type: ignore[assignment]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the words, whatever their ids: models over the same words give comparable perplexities."""
        return hashlib.sha256("\n".join(sorted(self.words)).encode()).hexdigest()

    @property
    def checksum(self) -> str:
        """CRC-32 of the words in the order of their ids, by which weights know the vocabulary that they belong to."""
        return f"{zlib.crc32(chr(10).join(self.words).encode()):08x}"

    @property
    def size(self) -> int:
        """Number of words, as `data.vocabulary_size` counts them: without specials and classes."""
        return sum(word not in SPECIAL_WORDS and not is_unknown_class(word) for word in self.words)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of prepared tokens; unknown ones have that of their class or of `<unk>`."""
        ids = self._ids
        if not self.has_unknown_classes:
            return [ids.get(token, UNK_ID) for token in tokens]
        return [ids[token] if token in ids else self._folded_id(token) for token in tokens]

    def _folded_id(self, token: str) -> int:
        """Return the id of a token in lower case or, if it has none, of its class.

        A vocabulary of text without capitals has no classes for them.
        """
        lowered = token.lower()
        if lowered in self._ids:
            return self._ids[lowered]
        looks = (appearance(token), None if token == lowered else appearance(lowered))
        if looks not in self._class_ids:  # which many unknown words share
            names = chain.from_iterable(classes_of(*look) for look in looks if look)
            self._class_ids[looks] = next((self._ids[name] for name in names if name in self._ids), UNK_ID)
        return self._class_ids[looks]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the words of ids."""
        return [self.words[index] for index in ids]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one word a line, line k + 1 for id k, replacing the file in one step.

        Raises InputError for a word that cannot stand on a line, such as one with a line break.
        """
        for word in self.words:
            if _is_blank(word) or "\n" in word or word != word.rstrip("\r") or "\0" in word:
                raise InputError(f"the word {word!r} cannot stand on a line of a vocabulary file; remove it")
        write_text(Path(path), "".join(f"{word}\n" for word in self.words))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read what `save` wrote; InputError, which names the file, if it is no vocabulary."""
        words: list[str] = []
        first_line: dict[str, int] = {}
        for number, word in enumerate(open_text(path), start=1):
            if _is_blank(word):
                raise InputError(f"{path}:{number}: blank line in a vocabulary; give one word a line")
            if word in first_line:
                raise InputError(
                    f"{path}:{number}: {word!r} stands on line {first_line[word]} already; remove one of them"
                )
            first_line[word] = number
            words.append(word)
        if words[:2] != [PAD, UNK]:
            raise InputError(f"{path}:1: a vocabulary begins with the lines {PAD} and {UNK}; add them, or give another")
        return cls(words)


def held_out_words_remark(counts: Mapping[str, int], vocabulary: Vocabulary, size: int | None) -> str | None:
    """Return a remark if a `min_count` of 0 has left words out of a vocabulary of at most `size`, else None."""
    rare = [word for word, count in counts.items() if count == 1 and word not in SPECIAL_WORDS]
    left_out = sum(word not in vocabulary for word in rare)
    if not left_out or vocabulary.size == size:
        return None
    return f"{left_out:,} of the {len(rare):,} words seen once are {UNK}, so that unknown words are learned"


def _held_out_words(counts: Mapping[str, int]) -> frozenset[str]:
    """Return words that occur once, every k-th by the alphabet, so that they are at most a tenth of the text."""
    rare = sorted(word for word, count in counts.items() if count == 1 and word not in SPECIAL_WORDS)
    step = -(-len(rare) // max(1, int(sum(counts.values()) * UNKNOWN_SHARE)))
    return frozenset(rare[::step]) if rare else frozenset()


def _lowered(word: str) -> str:
    return word if word in SPECIAL_WORDS or word == NUMBER else word.lower()


def _is_blank(word: str) -> bool:
    """Tell whether a line looks empty; other white space may be a word of its own, as in older vocabularies."""
    return not word.strip(" \t\r\f\v")
