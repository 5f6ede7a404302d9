"""`simplepcfg baseline lstm`: a neural control that `simplepcfg test` takes in place of a run."""

from typing import Annotated

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
from simplepcfg.cli.options import Device, Quiet, Raw
from simplepcfg.cli.output import note
from simplepcfg.cli.requests import opt

SUMMARY = "An LSTM language model."


def command(
    out: Annotated[str, opt("--out", "FILE", "Where the model is written.")],
    train: Train = None,
    valid: Annotated[
        str | None, opt("--valid", "FILE", "Text to choose the epoch by.  [default: a share of the text]")
    ] = None,
    like: Like = None,
    epochs: Annotated[int | None, opt("--epochs", "N", "Passes over the text, at most.  [default: 10]", min=1)] = None,
    minutes: Annotated[
        float | None, opt("--minutes", "M", "Time for training, at most; then --epochs has no default.")
    ] = None,
    size: Annotated[int, opt("--size", "N", "Of embeddings and hidden states.", min=1)] = 512,
    layers: Annotated[int, opt("--layers", "N", "Of the LSTM.", min=1)] = 2,
    dropout: Annotated[float, opt("--dropout", "P", "Share of features left out.")] = 0.3,
    batch_size: Annotated[int, opt("--batch-size", "N", "Sentences a step.", min=1)] = 64,
    learning_rate: Annotated[float, opt("--learning-rate", "X", "Of Adam at first; falls to 0 linearly.")] = 0.002,
    vocabulary_size: VocabularySize = None,
    min_count: MinCount = None,
    punctuation: Punctuation = None,
    raw: Raw = False,
    seed: Annotated[int, opt("--seed", "N", "Of weights, batches and dropout.", min=0)] = 0,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Train an LSTM language model with tied embeddings, and write it as one safetensors file.

    score, evaluate and every command of simplepcfg test take the file in place of a run. With --like RUN it has the
    run's vocabulary and preprocessing and, unless --train gives another, the run's training and validation text, so
    that perplexities are over the same tokens. Sentences are read one by one, as a grammar reads them. Without --like
    words are lower-cased and numbers are N. The epoch with the best validation perplexity is kept.

    \b
    Example:
      simplepcfg baseline lstm --like runs/demo --out lstm.safetensors
      simplepcfg baseline lstm --train train.txt --like runs/demo --minutes 30 --out lstm.safetensors
      simplepcfg evaluate runs/demo lstm.safetensors test.txt
    """
    refuse_own_words(like, vocabulary_size, min_count, punctuation)
    refuse_missing_text(train, like, valid, raw)
    refuse_unwritable_model(out)
    from simplepcfg.linguistics.controls.files import save_lstm
    from simplepcfg.linguistics.controls.lstm import LSTMConfig
    from simplepcfg.linguistics.controls.lstm_training import LSTMTraining, train_lstm
    from simplepcfg.linguistics.controls.run_text import changed_text_remark, vocabulary_and_config
    from simplepcfg.runs.config.schema import DataConfig
    from simplepcfg.runs.corpus import prepare_corpus
    from simplepcfg.runs.device import resolve_device
    from simplepcfg.runs.failures import resource_errors

    sizes = LSTMConfig(size=size, layers=layers, dropout=dropout)
    settings = LSTMTraining(
        epochs=epochs, minutes=minutes, batch_size=batch_size, learning_rate=learning_rate, seed=seed
    )
    where = resolve_device(device)
    vocabulary, split_seed = None, seed
    if like is None:
        data = DataConfig(
            punctuation="keep" if punctuation else "drop",
            tokenize=raw,
            raw=raw,
            vocabulary_size=vocabulary_size or 0,
            min_count=min_count or MIN_COUNT,
            max_length=0,
        )
    else:
        vocabulary, run = vocabulary_and_config(like)
        data, split_seed = run.data, run.seed
        if train is None:
            refuse_run_without_file(like, data.train)
    if train is not None:
        data = data.model_copy(update={"train": train, "valid": valid, "raw": raw})
    with resource_errors("training the LSTM", "lower --batch-size or --size"):
        corpus = prepare_corpus(data, split_seed, vocabulary=vocabulary)
        if like is not None and train is None and (remark := changed_text_remark(like, corpus)) is not None:
            corpus.notes.append(remark)
        note_remarks(corpus.notes, quiet)
        result = train_lstm(corpus, data.preprocessing, sizes, settings, where, lambda text: note(text, quiet))
        save_lstm(result.model, out)
    note(
        f"{out}: validation {result.valid.describe()}; {result.epochs:.1f} epochs of {len(corpus.train):,} sentences, "
        f"{result.seconds:.0f} s on {where}",
        quiet,
    )
