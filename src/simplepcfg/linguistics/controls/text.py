"""The text that a control learns from, and the words that it knows, which are those of a run."""

from __future__ import annotations

from dataclasses import dataclass

from simplepcfg.data.encoded_text import DecodedText, TextEncoder
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.tokens import read_tokens
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.pretrained import run_directory
from simplepcfg.runs.corpus import prepare_corpus
from simplepcfg.runs.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class ControlText:
    """The sentences that an n-gram model counts, the words that it knows, and remarks for the user."""

    sentences: DecodedText
    vocabulary: Vocabulary
    preprocessing: Preprocessing
    spelling: SpellingModel | None
    notes: list[str]


def read_control_text(like: str, train: str | None = None, raw: bool = False) -> ControlText:
    """Read all sentences of the file `train`, or those that the run `like` learned from, with the words of the run.

    With `raw` the file holds paragraphs, which are split into sentences and words. Raises InputError if the run's text
    was no file and none is given.
    """
    folder = RunFolder(run_directory(like))
    folder.require_own(folder.config, folder.vocabulary)  # it need not have been trained to its end
    vocabulary, config = Vocabulary.load(folder.vocabulary), folder.read_config()
    spelling, preprocessing = folder.read_spelling(vocabulary), config.data.preprocessing
    if train is not None:
        notes: list[str] = []
        encoder, new_text = TextEncoder(), preprocessing.completed(vocabulary.words)
        text = encoder.read(read_tokens(train, new_text.model_copy(update={"eos": False}), notes, raw))
        return ControlText(DecodedText(text, encoder.words), vocabulary, preprocessing, spelling, notes)
    if config.data.train in (None, "-"):
        raise InputError(f"--like {like}: its text was no file; give --train FILE")
    corpus = prepare_corpus(config.data, config.seed, vocabulary=vocabulary)
    sentences = DecodedText(corpus.train, vocabulary.words)
    return ControlText(sentences, vocabulary, preprocessing, spelling, corpus.notes)
