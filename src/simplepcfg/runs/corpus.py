"""The encoded training and validation text of a run, with a fingerprint."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath

import numpy as np
import torch

from simplepcfg.data.encoded_text import DecodedText, EncodedText, Ints, TextEncoder
from simplepcfg.data.readers import STDIN
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.tokens import TextFiles, TextSource, read_breaks, read_tokens, read_words
from simplepcfg.data.vocabulary import UNK, UNK_ID, Vocabulary, held_out_words_remark
from simplepcfg.errors import InputError, counted
from simplepcfg.files import Record
from simplepcfg.runs.config.schema import DataConfig

HELD_OUT_SHARE = 0.05
# With fewer sentences, if this share of the words is unknown, trees are often better with classes of unknown words.
SHORT_TEXT, MANY_UNKNOWN = 20_000, 0.1


@dataclass(frozen=True, slots=True)
class Corpus:
    """Encoded training and validation sentences; `notes` tell the user what was left out."""

    train: EncodedText
    valid: EncodedText
    vocabulary: Vocabulary
    notes: list[str] = field(default_factory=list)
    train_words: Sequence[list[str]] | None = None  # its tokens as they were written, where they were asked for
    train_breaks: EncodedText | None = None  # places of dropped separators in them, where they were asked for
    spelling: SpellingModel | None = None  # of the words that are not in the vocabulary; a resumed run has its own

    def identity(self) -> Record:
        """Return sizes and hashes, by which a resumed run recognises its text."""
        return {
            name: {
                "sentences": len(sentences),
                "tokens": int(sentences.lengths.sum()),
                "sha256": sentences.fingerprint(),
            }
            for name, sentences in (("train", self.train), ("valid", self.valid))
        } | {"vocabulary": len(self.vocabulary)}


def prepare_corpus(
    config: DataConfig,
    seed: int,
    train: TextSource | None = None,
    valid: TextSource | None = None,
    vocabulary: Vocabulary | None = None,
    keep_words: bool = False,
    keep_breaks: bool = False,
) -> Corpus:
    """Read, preprocess and encode the text of a run, in one pass and without holding it as strings.

    Validation text is split off if none is given, and sentences that cannot be trained on are left out. `train` and
    `valid` replace the files of the configuration; `vocabulary` is that of a resumed run; `keep_words` keeps the
    training sentences as they were written, `keep_breaks` where punctuation was dropped. Raises InputError if there
    is no usable text.
    """
    source = train if train is not None else training_text(config)
    if source is None:
        raise InputError("no training text; give --train FILE, one sentence a line, and --valid FILE if it had one")
    notes: list[str] = []
    encoder = TextEncoder()
    training = encoder.read(read_tokens(source, config.preprocessing, notes, config.raw))
    breaks = written = None
    as_written = TextEncoder()
    if (keep_breaks or keep_words) and (source == STDIN or isinstance(source, Iterator)):
        raise InputError("the training text is read again, for its punctuation or for teachers; save it to a file")
    if keep_breaks:
        breaks = EncodedText.of(read_breaks(source, config.preprocessing, config.raw))
    if keep_words:
        written = as_written.read(read_words(source, config.preprocessing, config.raw))
    valid_source = valid if valid is not None else config.valid
    if valid_source is not None:
        held_out = encoder.read(read_tokens(valid_source, config.preprocessing, notes, config.raw))
    else:
        kept, chosen = hold_out(training.lengths, seed, _name(source, "training"))
        training, held_out = training.select(kept), training.select(chosen)
        breaks, written = (None if each is None else each.select(kept) for each in (breaks, written))
        held = counted(len(held_out), "sentence")
        notes.append(f"no validation text: {held} of the training text held out (seed {seed})")
    words = encoder.words
    spelling = None
    if vocabulary is None:
        each = zip(words, training.counts(len(words)).tolist(), strict=True)
        counts = {word: count for word, count in each if count}
        size = config.vocabulary_size or None
        if config.unknown_classes == "endings":
            vocabulary = Vocabulary.with_endings(counts, size, config.min_count, config.lowercase)
        else:
            vocabulary = Vocabulary.from_counts(counts, size, config.min_count)
        if not config.min_count and (remark := held_out_words_remark(counts, vocabulary, size)) is not None:
            notes.append(f"{remark}; data.min_count = 1 keeps them")
        spelling = SpellingModel.of_unknown_words(counts, vocabulary)
    places = _usable(training, config.max_length, notes, _name(source, "training"))
    usable = training.select(places)
    breaks, written = (None if each is None else each.select(places) for each in (breaks, written))
    held_out = held_out.select(np.flatnonzero(held_out.lengths))
    if not (held_out.lengths >= 2).any():
        name = _name(valid_source if valid_source is not None else source, "validation")
        raise InputError(f"{name} has no sentence of two words or more to validate on; give a larger data.valid")
    encoder.finish(vocabulary.encode(words))
    remark = _unknown_words_remark(usable, held_out, vocabulary)
    if remark is not None:
        notes.append(remark)
    train_words = None if written is None else DecodedText(written, as_written.words)
    return Corpus(usable, held_out, vocabulary, notes, train_words, breaks, spelling)


def hold_out(lengths: Ints, seed: int, name: str = "the training text") -> tuple[Ints, Ints]:
    """Split sentences into training and validation: a random 5 % of those of two words or more, at least one.

    `lengths` are those of the sentences; their indices are returned, both in order. Raises InputError, with the `name`
    of the text, if fewer than two sentences have two words.
    """
    candidates = np.flatnonzero(lengths >= 2)
    if len(candidates) < 2:
        raise InputError(
            f"{name} has {counted(len(candidates), 'sentence')} of two words or more; at least 2 are needed, one of "
            "them for validation: give more text, or a validation text (data.valid)"
        )
    count = max(1, int(len(candidates) * HELD_OUT_SHARE))
    order = torch.randperm(len(candidates), generator=torch.Generator().manual_seed(seed))
    chosen = np.sort(candidates[order[:count].numpy()])
    return np.delete(np.arange(len(lengths)), chosen), chosen


def training_text(config: DataConfig) -> str | TextFiles | None:
    """Return the training file or files of a configuration."""
    return TextFiles(config.train) if isinstance(config.train, tuple) else config.train


def _name(source: TextSource, kind: str) -> str:
    """Return the name of a text in messages: its file, or the kind of text."""
    if isinstance(source, TextFiles):
        return ", ".join(source)
    return fspath(source) if isinstance(source, str | PathLike) else f"the {kind} text"


def _unknown_words_remark(training: EncodedText, held_out: EncodedText, vocabulary: Vocabulary) -> str | None:
    """Return a remark if `<unk>` is in the validation text, and never in the training text or very often; or None."""
    counts = held_out.counts(len(vocabulary))
    unknown = f"{counts[UNK_ID]:,} of {counts.sum():,} validation words are {UNK}"
    if counts[UNK_ID] and not training.counts(len(vocabulary))[UNK_ID]:
        return (
            f"{unknown}, whose probability is not learned, as the training text has none; set data.min_count higher, "
            f"so that its rarest words are {UNK}"
        )
    many = counts[UNK_ID] >= MANY_UNKNOWN * counts.sum() and len(training) < SHORT_TEXT
    if not many or vocabulary.has_unknown_classes:
        return None
    return (
        f"{unknown}; trees are often better if data.min_count=3 and data.unknown_classes=endings tell them apart "
        "(perplexities are then of another vocabulary)"
    )


def _usable(text: EncodedText, max_length: int, notes: list[str], name: str) -> Ints:
    """Return the indices of sentences of two words or more that are not too long; count the others in `notes`.

    A `max_length` of 0 allows any.
    """
    lengths = text.lengths
    long = lengths > (max_length or lengths.max(initial=0))
    empty, one_word, too_long = int((lengths == 0).sum()), int((lengths == 1).sum()), int((long & (lengths > 1)).sum())
    for count, what in (
        (empty, "with nothing left after preprocessing"),
        (one_word, "of one word (they have no tree)"),
        (too_long, f"longer than data.max_length = {max_length}"),
    ):
        if count:
            notes.append(f"{count:,} of {len(text):,} training sentences left out: {what}")
    usable = np.flatnonzero((lengths >= 2) & ~long)
    if not len(usable):
        raise InputError(
            f"{name}: no training sentence is left ({empty} empty, {one_word} of one word, {too_long} longer than "
            f"data.max_length = {max_length}); give more text or raise data.max_length"
        )
    return usable
