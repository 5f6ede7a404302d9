"""`simplepcfg baseline ngram`: a control that `simplepcfg test` takes in place of a run."""

from typing import Annotated

import typer

from simplepcfg.cli.options import Quiet, Raw
from simplepcfg.cli.output import note, refuse_unwritable, write_lines
from simplepcfg.errors import InputError

NAME = "baseline"
SUMMARY = "Train a control, such as an n-gram model."

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def top(context: typer.Context) -> None:
    """Train a control to compare runs with.

    \b
    Example:
      simplepcfg baseline ngram --train train.txt --out trigram.arpa
    """
    if context.invoked_subcommand is None:
        write_lines([context.get_help()])


@app.command("ngram", short_help="An n-gram model by modified Kneser-Ney smoothing.")
def ngram(
    train: Annotated[str, typer.Option("--train", metavar="FILE", help="Text, one sentence a line (.gz too).")],
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where the model is written.")],
    order: Annotated[int, typer.Option("--order", metavar="N", min=1, max=10, help="Longest n-grams.")] = 3,
    like: Annotated[
        str | None,
        typer.Option("--like", metavar="RUN", help="Take the vocabulary and the preprocessing of this run."),
    ] = None,
    vocabulary_size: Annotated[
        int | None, typer.Option("--vocabulary-size", metavar="N", min=1, help="Keep the N most frequent words.")
    ] = None,
    min_count: Annotated[
        int | None,
        typer.Option("--min-count", metavar="N", min=1, help="Keep words that occur N times or more.  [default: 2]"),
    ] = None,
    punctuation: Annotated[
        bool | None, typer.Option("--punctuation/--no-punctuation", help="Keep punctuation.  [default: no]")
    ] = None,
    raw: Raw = False,
    quiet: Quiet = False,
) -> None:
    """Train an interpolated n-gram model with modified Kneser-Ney smoothing, and write it as an ARPA file.

    Every command of simplepcfg test takes the file in place of a run. For a fair comparison with a run, train on the
    same text with --like RUN: then both see the same tokens. Without it words are lower-cased and numbers are N.

    \b
    Example:
      simplepcfg baseline ngram --train train.txt --like runs/demo --out trigram.arpa
      simplepcfg test minimal-pairs runs/demo trigram.arpa blimp/
    """
    given = [name for name, value in (("--vocabulary-size", vocabulary_size), ("--min-count", min_count)) if value]
    given += ["--punctuation"] if punctuation is not None else []
    if like is not None and given:
        raise InputError(f"--like {like} has a vocabulary and preprocessing of its own; leave out {given[0]}")
    refuse_unwritable(out)
    from simplepcfg.data.preprocessing import Preprocessing
    from simplepcfg.data.vocabulary import Vocabulary
    from simplepcfg.evaluation.psycholinguistics.ngram import train_ngram
    from simplepcfg.evaluation.psycholinguistics.ngram_files import save_ngram
    from simplepcfg.inference.word_models import vocabulary_of_run
    from simplepcfg.training.text.corpus import read_tokens

    vocabulary = None
    if like is None:
        preprocessing = Preprocessing(punctuation="keep" if punctuation else "drop", tokenize=raw)
    else:
        vocabulary, preprocessing = vocabulary_of_run(like)
    notes: list[str] = []
    sentences = read_tokens(train, preprocessing.model_copy(update={"eos": False}), notes, raw)
    for text in notes:
        note(text, quiet)
    if vocabulary is None:
        vocabulary = Vocabulary.from_sentences(sentences, vocabulary_size, min_count or 2)
    model = train_ngram(sentences, vocabulary, preprocessing, order)
    save_ngram(model, out)
    counts = ", ".join(
        f"{len(level):,} {length}-grams" for length, level in enumerate(model.log_probabilities, start=1)
    )
    note(f"{out}: {counts}, from {len(sentences):,} sentences", quiet)
