"""`simplepcfg baseline ngram` and `lstm`: controls that `simplepcfg test` takes in place of a run."""

from typing import Annotated

import typer

from simplepcfg.cli import baseline_lstm
from simplepcfg.cli.baseline_words import Like, MinCount, Punctuation, VocabularySize, note_remarks, refuse_own_words
from simplepcfg.cli.options import Quiet, Raw
from simplepcfg.cli.output import note, refuse_unwritable, write_lines
from simplepcfg.errors import counted

NAME = "baseline"
SUMMARY = "Train a control: an n-gram model or an LSTM."

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def top(context: typer.Context) -> None:
    """Train a control to compare runs with.

    \b
    Example:
      simplepcfg baseline ngram --train train.txt --out trigram.arpa
      simplepcfg baseline lstm --like runs/demo --out lstm.safetensors
    """
    if context.invoked_subcommand is None:
        write_lines([context.get_help()])


@app.command("ngram", short_help="An n-gram model by modified Kneser-Ney smoothing.")
def ngram(
    train: Annotated[str, typer.Option("--train", metavar="FILE", help="Text, one sentence a line (.gz too).")],
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where the model is written.")],
    order: Annotated[int, typer.Option("--order", metavar="N", min=1, max=10, help="Longest n-grams.")] = 3,
    like: Like = None,
    vocabulary_size: VocabularySize = None,
    min_count: MinCount = None,
    punctuation: Punctuation = None,
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
    refuse_own_words(like, vocabulary_size, min_count, punctuation)
    refuse_unwritable(out)
    from simplepcfg.data.preprocessing import Preprocessing
    from simplepcfg.data.vocabulary import Vocabulary
    from simplepcfg.evaluation.psycholinguistics.ngram import train_ngram
    from simplepcfg.evaluation.psycholinguistics.ngram_files import save_ngram
    from simplepcfg.inference.word_models import vocabulary_of_run
    from simplepcfg.training.text.tokens import read_tokens

    vocabulary = None
    if like is None:
        preprocessing = Preprocessing(punctuation="keep" if punctuation else "drop", tokenize=raw)
    else:
        vocabulary, preprocessing = vocabulary_of_run(like)
    notes: list[str] = []
    sentences = list(read_tokens(train, preprocessing.model_copy(update={"eos": False}), notes, raw))
    note_remarks(notes, quiet)
    if vocabulary is None:
        vocabulary = Vocabulary.from_sentences(sentences, vocabulary_size, min_count or 2)
    model = train_ngram(sentences, vocabulary, preprocessing, order)
    save_ngram(model, out)
    counts = ", ".join(
        f"{len(level):,} {length}-grams" for length, level in enumerate(model.log_probabilities, start=1)
    )
    note(f"{out}: {counts}, from {counted(len(sentences), 'sentence')}", quiet)


app.command("lstm", short_help=baseline_lstm.SUMMARY)(baseline_lstm.command)
