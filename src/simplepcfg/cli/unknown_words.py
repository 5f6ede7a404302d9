"""A remark on words that a run does not know: its numbers are then those of `<unk>`."""

from collections import Counter
from typing import TYPE_CHECKING

from simplepcfg.cli.options import Chunk
from simplepcfg.cli.output import note
from simplepcfg.errors import counted

if TYPE_CHECKING:
    from simplepcfg.linguistics.word_model import WordModel

SHOWN = 5
UNTRAINED = (
    "the run met no unknown word in training, so that the probability of <unk> is arbitrary; train it with "
    "data.min_count = 2 or higher"
)


class UnknownWords:
    """Counts over the sentences of a command."""

    def __init__(self, run: "WordModel") -> None:
        self._run = run
        self._words: Counter[str] = Counter()
        self._total = 0

    def count(self, sentences: Chunk) -> None:
        """Count the unknown words of some more sentences."""
        from simplepcfg.inference.sentences import split_sentences

        known, preprocessing = self._run.vocabulary, self._run.preprocessing
        for words, tags in split_sentences(sentences, preprocessing):
            item = preprocessing.apply(words, tags)
            self._total += len(item.kept)
            # An added <eos> is a token beyond those that are kept.
            pairs = zip(item.kept, item.tokens, strict=False)
            self._words.update(words[place] for place, token in pairs if token not in known)

    def tell(self, quiet: bool) -> None:
        """Print one line, if there are any: how many unknown words there are, and the most frequent of them."""
        unknown = sum(self._words.values())
        if not unknown:
            return
        from simplepcfg.data.raw_text import shortened

        shown = " ".join(shortened(word) for word, _ in self._words.most_common(SHOWN))
        more = " …" if len(self._words) > SHOWN else ""
        share = f"{unknown:,} of {counted(self._total, 'word')} ({100 * unknown / self._total:.1f} %)"
        note(f"not in the vocabulary, hence <unk>: {share}: {shown}{more}", quiet)
        spelling = getattr(self._run, "spelling", None)
        if spelling is not None and spelling.unknown_tokens == 0:
            note(UNTRAINED, quiet)
