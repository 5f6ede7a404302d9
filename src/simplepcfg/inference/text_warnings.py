"""Warnings to Python callers about text, which say what the command line says."""

from __future__ import annotations

import sys
import warnings
from functools import partial

from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.raw_text import paragraph_remark, untokenized_remark
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.unknown_words import UnknownWords
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import TextWarning


class TextWarnings:
    """Warns of unknown words, of untokenised text and of several sentences in one: of each kind once for a run."""

    def __init__(self, vocabulary: Vocabulary, spelling: SpellingModel | None, closed: bool) -> None:
        self._unknown_words = partial(UnknownWords, vocabulary, spelling, closed)
        self._warned: set[str] = set()

    def check(self, name: str, sentences: list[Prepared], plain: bool) -> None:
        """Warn of these sentences by ``TextWarning``, which filters of Python's ``warnings`` can name.

        ``name`` is that of the run; the sentences of ``plain`` text may be split wrongly, those of trees are not.
        """
        if plain and "split" not in self._warned:
            words = [item.words for item in sentences]
            remark = untokenized_remark(words) or paragraph_remark(words)
            if remark is not None:
                self._warn("split", f"{name}: the text {remark}; simplepcfg.split_raw splits it into words")
        if "unknown" not in self._warned:
            unknown = self._unknown_words()
            unknown.count(sentences)
            if remarks := "; ".join(unknown.remarks()):
                self._warn("unknown", f"{name}: {remarks}")

    def _warn(self, kind: str, message: str) -> None:
        """Warn at the line that called this package."""
        self._warned.add(kind)
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("simplepcfg."):
            level, frame = level + 1, frame.f_back
        warnings.warn(message, TextWarning, stacklevel=level)
