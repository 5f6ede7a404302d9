"""Language models by name, for tests that take runs, n-gram models and LSTMs alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simplepcfg.data.trees import SpanTree
from simplepcfg.data.vocabulary import EOS, Vocabulary
from simplepcfg.evaluation.perplexity import perplexity
from simplepcfg.evaluation.psycholinguistics.word_model import SequenceModel, WordModel
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.inference.api import load
from simplepcfg.inference.evaluation import vocabulary_use
from simplepcfg.inference.sentences import split_sentences
from simplepcfg.pretrained import installed, run_directory
from simplepcfg.training.config.schema import RunConfig
from simplepcfg.training.storage.checksums import record_is_intact
from simplepcfg.training.storage.lstm_files import is_lstm_file, load_lstm
from simplepcfg.training.storage.ngram_files import is_ngram_file, load_ngram
from simplepcfg.training.storage.run_folder import RunFolder
from simplepcfg.training.text.corpus import Corpus


def names_word_model(name: str) -> bool:
    """Whether a name is that of a run's folder, of an installed grammar, or of a file with an n-gram model or LSTM."""
    path = Path(name)
    if path.exists():
        return (path / "config.toml").is_file() or names_sequence_model(name)
    return name in installed()


def names_sequence_model(name: str) -> bool:
    """Whether a name is that of a file with an n-gram model or an LSTM."""
    return Path(name).is_file() and (is_ngram_file(name) or is_lstm_file(name))


def load_word_model(name: str, device: str = "auto") -> WordModel:
    """The model of a run's folder, an installed grammar, or the n-gram model or LSTM of a file."""
    return load_sequence_model(name, device) if names_sequence_model(name) else load(name, device)


def load_sequence_model(name: str, device: str = "auto") -> SequenceModel:
    """The n-gram model or LSTM of a file."""
    return load_ngram(name) if is_ngram_file(name) else load_lstm(name, device)


def vocabulary_and_config(name: str) -> tuple[Vocabulary, RunConfig]:
    """The words that a run knows, and its configuration; it need not have been trained to its end."""
    folder = RunFolder(run_directory(name))
    folder.require_own(folder.config, folder.vocabulary)
    return Vocabulary.load(folder.vocabulary), folder.read_config()


def changed_text_remark(name: str, corpus: Corpus) -> str | None:
    """What to say if a corpus, read from the files of a run, is not what the run learned from; None if it is.

    Nothing is said of a run whose run.json is missing or damaged.
    """
    try:
        facts = json.loads(RunFolder(run_directory(name)).facts.read_bytes())
        known = (
            {part: facts["data"][part]["sha256"] for part in ("train", "valid")} if record_is_intact(facts) else None
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    found = corpus.identity()
    if known is None or all(found[part]["sha256"] == known[part] for part in known):
        return None
    return (
        f"--like {name}: its text or vocabulary has changed since it was trained, as the checksums in its run.json "
        "say; the control learns from what is there now"
    )


def evaluate_sequence_model(model: SequenceModel, items: Sequence[Any], name: str) -> EvaluationReport:
    """Perplexity on sentences or trees, over the same tokens as that of a run with the same preprocessing."""
    if items and all(isinstance(item, SpanTree) for item in items):
        prepared = Treebank(items, model.preprocessing).prepared
    else:
        split = split_sentences(items, model.preprocessing)
        prepared = [model.preprocessing.apply(words, tags) for words, tags in split]
    tokens = [item.tokens for item in prepared]
    # The end stands for the <eos> of a run that adds one, and such a run scores sentences of one word, too.
    eos = EOS in model.vocabulary
    lengths = [len(item) + eos if item else 0 for item in tokens]
    return EvaluationReport(
        name,
        len(items),
        sum(map(len, tokens)),
        perplexity=perplexity(model.token_log_probabilities(tokens), lengths, eos),
        likelihood="exact",
        vocabulary=vocabulary_use(model.vocabulary, [[*item, EOS] if eos and item else item for item in tokens]),
    )
