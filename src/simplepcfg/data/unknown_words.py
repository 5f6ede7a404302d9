"""Remarks on words that a model does not know, and scores as `<unk>`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import counted, shortened

SHOWN = 5
UNTRAINED = (
    "the run met no unknown word in training, so that the probability of <unk> is arbitrary; train it with "
    "data.min_count = 2 or higher"
)


class UnknownWords:
    """Counts of unknown words over sentences."""

    def __init__(self, vocabulary: Vocabulary, spelling: SpellingModel | None = None, closed: bool = False) -> None:
        self._vocabulary, self._spelling = vocabulary, spelling
        self._reason = "hence <unk>, whatever their spelling" if closed else "hence <unk>"
        self._words: Counter[str] = Counter()
        self._total = 0

    def count(self, sentences: Iterable[Prepared]) -> None:
        """Count the unknown words of some more sentences; a text's own `<unk>` is read as it is written."""
        for item in sentences:
            self._total += len(item.kept)
            # An added <eos> is a token beyond those that are kept.
            pairs = zip(item.kept, item.tokens, strict=False)
            self._words.update(item.words[place] for place, token in pairs if token not in self._vocabulary)

    def remarks(self) -> Iterator[str]:
        """Yield how many unknown words there are and the most frequent of them, and whether the run learned any."""
        unknown = sum(self._words.values())
        if not unknown:
            return
        shown = " ".join(shortened(word) for word, _ in self._words.most_common(SHOWN))
        more = " …" if len(self._words) > SHOWN else ""
        share = f"{unknown:,} of {counted(self._total, 'word')} ({100 * unknown / self._total:.1f} %)"
        yield f"not in the vocabulary, {self._reason}: {share}: {shown}{more}"
        if self._spelling is not None and self._spelling.unknown_tokens == 0:
            yield UNTRAINED
