"""The encoded training and validation text of a run, with a fingerprint."""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch

from simplepcfg.data.preprocessing import Preprocessing, has_penn_tags, with_word_tags
from simplepcfg.data.raw_text import UNTOKENIZED, mostly_untokenized
from simplepcfg.data.readers import read_sentences, read_trees, sniff
from simplepcfg.data.trees import SpanTree
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.training.config.schema import DataConfig

HELD_OUT_SHARE = 0.05
# A file, or sentences in memory: strings to be split at white space, lists of words, or trees (nltk's too).
TextSource = str | PathLike[str] | Iterable[str | Sequence[str] | SpanTree]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Encoded training and validation sentences; `notes` tell the user what was left out."""

    train: list[list[int]]
    valid: list[list[int]]
    vocabulary: Vocabulary
    notes: list[str] = field(default_factory=list)
    train_tokens: list[list[str]] | None = None  # of the training sentences, where they were asked for

    def identity(self) -> dict[str, Any]:
        """Return sizes and hashes, by which a resumed run recognises its text."""
        return {
            name: {
                "sentences": len(sentences),
                "tokens": sum(map(len, sentences)),
                "sha256": fingerprint(sentences),
            }
            for name, sentences in (("train", self.train), ("valid", self.valid))
        } | {"vocabulary": len(self.vocabulary)}


def prepare_corpus(
    config: DataConfig,
    seed: int,
    train: TextSource | None = None,
    valid: TextSource | None = None,
    vocabulary: Vocabulary | None = None,
    keep_tokens: bool = False,
) -> Corpus:
    """Read, preprocess and encode the text of a run.

    Validation text is split off if none is given, and sentences that cannot be trained on are left out. `train` and
    `valid` replace the files of the configuration; `vocabulary` is that of a resumed run; `keep_tokens` keeps the words
    of the training sentences beside their ids. Raises InputError if there is no usable text.
    """
    source = train if train is not None else config.train
    if source is None:
        raise InputError("no training text; set data.train to a file of one sentence a line")
    notes: list[str] = []
    train_tokens = read_tokens(source, config.preprocessing, notes, config.raw)
    valid_source = valid if valid is not None else config.valid
    if valid_source is not None:
        valid_tokens = read_tokens(valid_source, config.preprocessing, notes, config.raw)
    else:
        train_tokens, valid_tokens = hold_out(train_tokens, seed, _name(source, "training"))
        notes.append(f"no validation text: {len(valid_tokens):,} sentences of the training text held out (seed {seed})")
    if vocabulary is None:
        vocabulary = Vocabulary.from_sentences(
            train_tokens, config.vocabulary_size or None, config.min_count, config.unknown_classes == "signature"
        )
    encoded = [vocabulary.encode(tokens) for tokens in train_tokens]
    usable = _leave_out_unusable(encoded, config.max_length, notes, _name(source, "training"))
    held_out = [vocabulary.encode(tokens) for tokens in valid_tokens if tokens]
    if not any(len(sentence) >= 2 for sentence in held_out):
        name = _name(valid_source if valid_source is not None else source, "validation")
        raise InputError(f"{name} has no sentence of two words or more to validate on; give a larger data.valid")
    kept = [tokens for tokens in train_tokens if _is_usable(tokens, config.max_length)] if keep_tokens else None
    return Corpus(usable, held_out, vocabulary, notes, kept)


def read_tokens(
    source: TextSource, preprocessing: Preprocessing, notes: list[str] | None = None, raw: bool = False
) -> list[list[str]]:
    """Return the preprocessed tokens of each sentence of a file (text or trees) or in memory; some may be empty.

    With `raw` a file of text holds paragraphs, which are split into sentences. Remarks for the user are appended to
    `notes`. Raises InputError for a file that cannot be read.
    """
    if not isinstance(source, str | PathLike):
        return _tokens_in_memory(source, preprocessing)
    path = fspath(source)
    if sniff(path) == "text":
        sentences = list(read_sentences(path, split=preprocessing.split, raw=raw))
        if notes is not None and not preprocessing.tokenize and mostly_untokenized(sentences):
            notes.append(f"{path}: {UNTOKENIZED}; set data.tokenize = true, and data.raw = true for paragraphs")
        return [preprocessing.apply(words).tokens for words in sentences]
    trees = list(read_trees(path))
    if notes is not None and preprocessing.punctuation == "drop" and not has_penn_tags(trees):
        notes.append(f"{path}: the tags are not Penn's, so punctuation is what has no letter or digit")
    return [preprocessing.apply(tree.words, tree.tags).tokens for tree in with_word_tags(trees)]


def hold_out(
    sentences: list[list[str]], seed: int, name: str = "the training text"
) -> tuple[list[list[str]], list[list[str]]]:
    """Split sentences into training and validation: a random 5 % of those of two words or more, at least one.

    Raises InputError, with the `name` of the text, if fewer than two sentences have two words.
    """
    candidates = [index for index, tokens in enumerate(sentences) if len(tokens) >= 2]
    if len(candidates) < 2:
        raise InputError(
            f"{name} has {len(candidates)} sentences of two words or more; at least 2 are needed, one of them for "
            "validation: give more text, or a validation text (data.valid)"
        )
    count = max(1, int(len(candidates) * HELD_OUT_SHARE))
    order = torch.randperm(len(candidates), generator=torch.Generator().manual_seed(seed))
    chosen = {candidates[position] for position in order[:count].tolist()}
    kept = [tokens for index, tokens in enumerate(sentences) if index not in chosen]
    return kept, [sentences[index] for index in sorted(chosen)]


def fingerprint(sentences: Iterable[Sequence[int]]) -> str:
    """Return the SHA-256 of the sentences' lengths and word ids, in order."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(array("q", [len(sentence), *sentence]).tobytes())
    return digest.hexdigest()


def absolute_paths(config: DataConfig) -> DataConfig:
    """Return the configuration with absolute paths, so that a run can be resumed from another working directory."""
    found = {
        name: str(Path(path).absolute())
        for name in ("train", "valid")
        if (path := getattr(config, name)) is not None and path != "-"
    }
    return config.model_copy(update=found)


def _name(source: TextSource, kind: str) -> str:
    """Return the name of a text in messages: its file, or the kind of text."""
    return fspath(source) if isinstance(source, str | PathLike) else f"the {kind} text"


def _tokens_in_memory(source: Iterable[Any], preprocessing: Preprocessing) -> list[list[str]]:
    items = [SpanTree.from_nltk(item) if hasattr(item, "label") else item for item in source]
    trees = iter(with_word_tags([item for item in items if isinstance(item, SpanTree)]))
    tokens = []
    for number, item in enumerate(items):
        if isinstance(item, SpanTree):
            tree = next(trees)
            tokens.append(preprocessing.apply(tree.words, tree.tags).tokens)
            continue
        words = preprocessing.split(item) if isinstance(item, str) else list(item)
        for word in words:
            if not isinstance(word, str):
                raise InputError(f"sentence {number}: {word!r} is not a string; give words, not ids")
        tokens.append(preprocessing.apply(words).tokens)
    return tokens


def _is_usable(sentence: Sequence[Any], max_length: int) -> bool:
    """Return whether a sentence has a tree and is not too long; a `max_length` of 0 allows any."""
    return 2 <= len(sentence) <= (max_length or len(sentence))


def _leave_out_unusable(encoded: list[list[int]], max_length: int, notes: list[str], name: str) -> list[list[int]]:
    """Return the sentences of two words or more that are not too long; count the others in `notes`."""
    usable = [sentence for sentence in encoded if _is_usable(sentence, max_length)]
    empty = sum(not sentence for sentence in encoded)
    one_word = sum(len(sentence) == 1 for sentence in encoded)
    too_long = len(encoded) - len(usable) - empty - one_word
    for count, what in (
        (empty, "with nothing left after preprocessing"),
        (one_word, "of one word (they have no tree)"),
        (too_long, f"longer than data.max_length = {max_length}"),
    ):
        if count:
            notes.append(f"{count:,} of {len(encoded):,} training sentences left out: {what}")
    if not usable:
        raise InputError(
            f"{name}: no training sentence is left ({empty} empty, {one_word} of one word, {too_long} longer than "
            f"data.max_length = {max_length}); give more text or raise data.max_length"
        )
    return usable
