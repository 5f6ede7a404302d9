"""`simplepcfg baseline ngram` and `lstm`: controls that `simplepcfg test` takes in place of a run."""

from typing import Annotated

from simplepcfg.cli import baseline_lstm
from simplepcfg.cli.baseline_words import (
    MIN_COUNT,
    Like,
    MinCount,
    Punctuation,
    Train,
    VocabularySize,
    note_remarks,
    refuse_missing_text,
    refuse_own_words,
    refuse_run_without_file,
    refuse_unwritable_model,
)
from simplepcfg.cli.options import Quiet, Raw
from simplepcfg.cli.output import note
from simplepcfg.cli.requests import group, opt
from simplepcfg.errors import InputError, counted

NAME = "baseline"
SUMMARY = "Train a control: an n-gram model or an LSTM."

app = group(
    """Train a control to compare runs with.

    \b
    Example:
      simplepcfg baseline ngram --like runs/demo --out trigram.safetensors
      simplepcfg baseline lstm --like runs/demo --out lstm.safetensors
    """
)


@app.command("ngram", short_help="An n-gram model by modified Kneser-Ney smoothing.")
def ngram(
    out: Annotated[str, opt("--out", "FILE", "Where the model is written.")],
    train: Train = None,
    order: Annotated[int, opt("--order", "N", "Longest n-grams.", min=1, max=10)] = 3,
    like: Like = None,
    vocabulary_size: VocabularySize = None,
    min_count: MinCount = None,
    punctuation: Punctuation = None,
    raw: Raw = False,
    quiet: Quiet = False,
) -> None:
    """Train an interpolated n-gram model with modified Kneser-Ney smoothing.

    score, evaluate and every command of simplepcfg test take the file in place of a run. With --like RUN it has the
    run's vocabulary and preprocessing and, unless --train gives another text, counts the sentences that the run learned
    from: not those that were held out for validation. All sentences of --train FILE are counted. Without --like words
    are lower-cased and numbers are N. The file is in safetensors' format.

    \b
    Example:
      simplepcfg baseline ngram --like runs/demo --out trigram.safetensors
      simplepcfg baseline ngram --train train.txt --order 5 --out five.safetensors
      simplepcfg test minimal-pairs runs/demo trigram.safetensors blimp/
    """
    refuse_own_words(like, vocabulary_size, min_count, punctuation)
    refuse_missing_text(train, like, None, raw)
    refuse_unwritable_model(out)
    if out.endswith(".arpa"):
        raise InputError(f"{out}: n-gram models are written as safetensors; give --out {out[:-5]}.safetensors")
    from simplepcfg.data.encoded_text import DecodedText, TextEncoder
    from simplepcfg.data.preprocessing import Preprocessing
    from simplepcfg.data.tokens import read_tokens
    from simplepcfg.data.vocabulary import Vocabulary
    from simplepcfg.linguistics.controls.files import save_ngram
    from simplepcfg.linguistics.controls.ngram_training import train_ngram
    from simplepcfg.linguistics.controls.run_text import changed_text_remark, vocabulary_and_config
    from simplepcfg.runs.corpus import prepare_corpus

    preprocessing = Preprocessing(punctuation="keep" if punctuation else "drop", tokenize=raw)
    vocabulary = run = None
    if like is not None:
        vocabulary, run = vocabulary_and_config(like)
        preprocessing = run.data.preprocessing
    notes: list[str] = []
    if train is not None:
        encoder = TextEncoder()
        text = encoder.read(read_tokens(train, preprocessing.model_copy(update={"eos": False}), notes, raw))
        sentences = DecodedText(text, encoder.words)
        vocabulary = vocabulary or Vocabulary.from_sentences(sentences, vocabulary_size, min_count or MIN_COUNT)
    else:
        assert like is not None  # refuse_missing_text saw to it
        assert run is not None
        refuse_run_without_file(like, run.data.train)
        corpus = prepare_corpus(run.data, run.seed, vocabulary=vocabulary)
        vocabulary, notes = corpus.vocabulary, corpus.notes
        if (remark := changed_text_remark(like, corpus)) is not None:
            notes.append(remark)
        sentences = DecodedText(corpus.train, vocabulary.words)
    note_remarks(notes, quiet)
    model = train_ngram(sentences, vocabulary, preprocessing, order)
    save_ngram(model, out)
    counts = ", ".join(f"{len(level):,} {length}-grams" for length, level in enumerate(model.levels, start=1))
    note(f"{out}: {counts}, from {counted(len(sentences), 'sentence')}", quiet)


app.command("lstm", short_help=baseline_lstm.SUMMARY)(baseline_lstm.command)
