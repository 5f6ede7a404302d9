"""Remarks on words that a run does not know, which a command prints after its answers."""

from typing import TYPE_CHECKING

from simplepcfg.cli.job import Chunk
from simplepcfg.cli.output import note

if TYPE_CHECKING:
    from simplepcfg.linguistics.word_model import WordModel


class UnknownWords:
    """Counts over the sentences of a command."""

    def __init__(self, run: "WordModel") -> None:
        from simplepcfg.data import unknown_words

        self._model = run
        spelling, closed = getattr(run, "spelling", None), getattr(run, "closed_vocabulary", False)
        self._counts = unknown_words.UnknownWords(run.vocabulary, spelling, closed)

    def count(self, sentences: Chunk) -> None:
        """Count the unknown words of some more sentences."""
        from simplepcfg.inference.sentences import split_sentences
        from simplepcfg.linguistics.word_model import with_known_marks

        preprocessing = self._model.preprocessing
        for words, tags in split_sentences(sentences, preprocessing):
            self._counts.count([(words, preprocessing.apply(with_known_marks(self._model, words), tags))])

    def tell(self, quiet: bool) -> None:
        """Print how many unknown words there are, if any, and the most frequent of them."""
        for remark in self._counts.remarks():
            note(remark, quiet)
