"""The text that a control learns from, and the words that it knows: its own, or those of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from simplepcfg.data.encoded_text import DecodedText, TextEncoder
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.tokens import read_tokens
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.pretrained import run_directory
from simplepcfg.runs.config.schema import DataConfig
from simplepcfg.runs.corpus import Corpus, prepare_corpus
from simplepcfg.runs.run_folder import RunFolder

MIN_COUNT = 2


@dataclass(frozen=True, slots=True)
class ControlSentences:
    """The sentences that an n-gram model counts, the words that it knows, and remarks for the user."""

    sentences: DecodedText
    vocabulary: Vocabulary
    preprocessing: Preprocessing
    spelling: SpellingModel | None
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class ControlText:
    """A file to learn from and the words to know; those of the run `like` where none are given."""

    train: str | None = None
    valid: str | None = None  # to choose an epoch by
    like: str | None = None  # folder of a run, whose vocabulary and preprocessing a control takes
    vocabulary_size: int | None = None
    min_count: int | None = None
    punctuation: bool | None = None
    raw: bool = False

    @property
    def name(self) -> str:
        """What the text is called."""
        return self.train if self.train is not None else f"the text of {self.like}"

    def corpus(self, seed: int = 0) -> tuple[Corpus, Preprocessing]:
        """Read training and validation text, of which some is held out if there is none; a run's is split as it was."""
        data, vocabulary, seed = self._settings(seed)
        corpus = prepare_corpus(data, seed, vocabulary=vocabulary)
        if self.like is not None:
            spelling = RunFolder(run_directory(self.like)).read_spelling(corpus.vocabulary)
            corpus = replace(corpus, spelling=spelling)
        return corpus, data.preprocessing

    def sentences(self) -> ControlSentences:
        """Read all sentences of a file, or those that a run learned from."""
        if self.train is None:
            corpus, preprocessing = self.corpus()
            sentences = DecodedText(corpus.train, corpus.vocabulary.words)
            return ControlSentences(sentences, corpus.vocabulary, preprocessing, corpus.spelling, corpus.notes)
        data, vocabulary, _ = self._settings(0)
        notes: list[str] = []
        encoder = TextEncoder()
        preprocessing = data.preprocessing.model_copy(update={"eos": False})
        sentences = DecodedText(encoder.read(read_tokens(self.train, preprocessing, notes, self.raw)), encoder.words)
        if self.like is not None and vocabulary is not None:
            spelling = RunFolder(run_directory(self.like)).read_spelling(vocabulary)
        else:
            counts = Counter(word for sentence in sentences for word in sentence)
            vocabulary = Vocabulary.from_counts(counts, self.vocabulary_size, self.min_count or MIN_COUNT)
            spelling = SpellingModel.of_unknown_words(counts, vocabulary)
        return ControlSentences(sentences, vocabulary, data.preprocessing, spelling, notes)

    def _settings(self, seed: int) -> tuple[DataConfig, Vocabulary | None, int]:
        """Return how text is read, the words of the run, and the seed of what is held out."""
        vocabulary = None
        if self.like is None:
            data = DataConfig(
                punctuation="keep" if self.punctuation else "drop",
                tokenize=self.raw,
                vocabulary_size=self.vocabulary_size or 0,
                min_count=self.min_count or MIN_COUNT,
                max_length=0,
            )
        else:
            folder = RunFolder(run_directory(self.like))
            folder.require_own(folder.config, folder.vocabulary)  # it need not have been trained to its end
            vocabulary, run = Vocabulary.load(folder.vocabulary), folder.read_config()
            data, seed = run.data, run.seed
            if self.train is None and data.train in (None, "-"):
                raise InputError(f"--like {self.like}: its text was no file; give --train FILE")
        if self.train is not None:
            data = data.model_copy(update={"train": self.train, "valid": self.valid, "raw": self.raw})
        return data, vocabulary, seed
