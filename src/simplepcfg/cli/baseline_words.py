"""Options of `simplepcfg baseline` that say which words a control knows: those of a run, or its own."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from simplepcfg.cli.output import note, refuse_unwritable
from simplepcfg.cli.requests import flag, opt
from simplepcfg.errors import InputError

MIN_COUNT = 2

Like = Annotated[str | None, opt("--like", "RUN", "Take the vocabulary and the preprocessing of this run.")]
Train = Annotated[str | None, opt("--train", "FILE", "Text, one sentence a line (.gz too).  [default: that of --like]")]
VocabularySize = Annotated[int | None, opt("--vocabulary-size", "N", "Keep the N most frequent words.", min=1)]
MinCount = Annotated[int | None, opt("--min-count", "N", "Keep words that occur N times or more.  [default: 2]", min=1)]
Punctuation = Annotated[bool | None, flag("--punctuation/--no-punctuation", "Keep punctuation.  [default: no]")]


def refuse_own_words(
    like: str | None, vocabulary_size: int | None, min_count: int | None, punctuation: bool | None
) -> None:
    """Raise InputError if there is a run to be like and an option that contradicts it."""
    given = [name for name, value in (("--vocabulary-size", vocabulary_size), ("--min-count", min_count)) if value]
    given += ["--punctuation"] if punctuation is not None else []
    if like is not None and given:
        raise InputError(f"--like {like} has a vocabulary and preprocessing of its own; leave out {given[0]}")


def refuse_missing_text(train: str | None, like: str | None, valid: str | None, raw: bool) -> None:
    """Raise InputError if there is no text to learn from, or an option that goes with a text which is not given."""
    if train is None and like is None:
        raise InputError("there is no text to learn from; give --train FILE, or --like RUN to take that of a run")
    if train is None and (valid is not None or raw):
        raise InputError(f"{'--valid' if valid is not None else '--raw'} goes with a text; give --train FILE, too")


def refuse_unwritable_model(out: str) -> None:
    """Raise InputError before any work is done if a model cannot be written to a file of this name."""
    if out == "-" or (Path(out).exists() and not Path(out).is_file() and not Path(out).is_dir()):
        raise InputError(f"{out}: a model is written to a file, not to a pipe or a device; give --out FILE")
    refuse_unwritable(out)


def refuse_run_without_file(like: str | None, train: str | None) -> None:
    """Raise InputError if the text of a run, as its configuration has it, was no file that can be read again."""
    if train is None or train == "-":
        raise InputError(f"--like {like}: its text was no file; give --train FILE")


def note_remarks(remarks: Iterable[str], quiet: bool) -> None:
    """Print remarks on a text; where a run would be given configuration keys, a control has an option."""
    from simplepcfg.data.tokens import ADVICE_TO_TOKENIZE

    for remark in remarks:
        note(remark.replace(ADVICE_TO_TOKENIZE, "--raw splits it into sentences and words"), quiet)
