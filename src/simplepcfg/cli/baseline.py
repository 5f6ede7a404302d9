"""`simplepcfg baseline ngram` and `lstm`: controls that `simplepcfg test` takes in place of a run."""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.cli.options import Device, Quiet, Raw
from simplepcfg.cli.output import note, refuse_unwritable
from simplepcfg.cli.progress import shows_progress
from simplepcfg.cli.requests import flag, group, opt, options, takes
from simplepcfg.errors import InputError, counted
from simplepcfg.progress import stage

if TYPE_CHECKING:
    from simplepcfg.linguistics.controls.text import ControlText

SUMMARY = "Train a control: an n-gram model or an LSTM."

app = group(
    """Train a control to compare runs with.

    \b
    Example:
      simplepcfg baseline ngram --like runs/demo --out trigram.safetensors
      simplepcfg baseline lstm --like runs/demo --out lstm.safetensors
    """
)


@options
class ControlRequest:
    """What a control learns from, which words it knows, and where it is written."""

    out: str = opt("--out", "FILE", "Where the model is written.", ...)
    train: str | None = opt("--train", "FILE", "Text, one sentence a line (.gz too).  [default: that of --like]")
    like: str | None = opt("--like", "RUN", "Take the vocabulary and the preprocessing of this run.")
    vocabulary_size: int | None = opt("--vocabulary-size", "N", "Keep the N most frequent words.", min=1)
    min_count: int | None = opt("--min-count", "N", "Keep words that occur N times or more.  [default: 2]", min=1)
    punctuation: bool | None = flag("--punctuation/--no-punctuation", "Keep punctuation.  [default: no]", None)
    raw: Raw = False
    quiet: Quiet = False

    def text(self, valid: str | None = None) -> "ControlText":
        """Return the text that is asked for. Raises InputError if options contradict each other, or for a bad --out."""
        for name in ("vocabulary_size", "min_count", "punctuation") if self.like is not None else ():
            if getattr(self, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise InputError(
                    f"--like {self.like} has a vocabulary and preprocessing of its own; leave out {option}"
                )
        if self.train is None and self.like is None:
            raise InputError("there is no text to learn from; give --train FILE, or --like RUN to take that of a run")
        if self.train is None and (valid is not None or self.raw):
            raise InputError(f"{'--valid' if valid is not None else '--raw'} goes with a text; give --train FILE, too")
        place = Path(self.out)
        if self.out == "-" or (place.exists() and not place.is_file() and not place.is_dir()):
            raise InputError(f"{self.out}: a model is written to a file, not to a pipe or a device; give --out FILE")
        refuse_unwritable(self.out)
        from simplepcfg.linguistics.controls.text import ControlText

        shared = (field.name for field in fields(ControlText) if field.name != "valid")
        return ControlText(valid=valid, **{name: getattr(self, name) for name in shared})

    def remark(self, remarks: Iterable[str]) -> None:
        """Print remarks on a text."""
        for remark in remarks:
            note(remark, self.quiet)


@options
class NgramRequest(ControlRequest):
    """An n-gram model."""

    order: int = opt("--order", "N", "Longest n-grams.", 3, min=1, max=10)


@options
class LSTMRequest(ControlRequest):
    """An LSTM, and how it is trained."""

    valid: str | None = opt("--valid", "FILE", "Text to choose the epoch by.  [default: a share of the text]")
    epochs: int | None = opt("--epochs", "N", "Passes over the text, at most.  [default: 10]", min=1)
    minutes: float | None = opt("--minutes", "M", "Time for training, at most; then --epochs has no default.")
    size: int = opt("--size", "N", "Of embeddings and hidden states.", 512, min=1)
    layers: int = opt("--layers", "N", "Of the LSTM.", 2, min=1)
    dropout: float = opt("--dropout", "P", "Share of features left out.", 0.3)
    batch_size: int = opt("--batch-size", "N", "Sentences a step.", 64, min=1)
    seed: int = opt("--seed", "N", "Of weights, batches and dropout.", 0, min=0)
    device: Device = "auto"


@app.command("ngram", short_help="An n-gram model by modified Kneser-Ney smoothing.")
@shows_progress
@takes(NgramRequest)
def ngram(request: NgramRequest) -> None:
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
    text, out = request.text(), request.out
    if out.endswith(".arpa"):
        raise InputError(f"{out}: n-gram models are written as safetensors; give --out {out[:-5]}.safetensors")
    from simplepcfg.linguistics.controls.files import save_ngram
    from simplepcfg.linguistics.controls.ngram_training import train_ngram

    with stage(f"reading {text.name}"):
        read = text.sentences()
    request.remark(read.notes)
    model = train_ngram(read.sentences, read.vocabulary, read.preprocessing, request.order, spelling=read.spelling)
    save_ngram(model, out)
    counts = ", ".join(f"{len(level):,} {length}-grams" for length, level in enumerate(model.levels, start=1))
    note(f"{out}: {counts}, from {counted(len(read.sentences), 'sentence')}", request.quiet)


@app.command("lstm", short_help="An LSTM language model.")
@shows_progress
@takes(LSTMRequest)
def lstm(request: LSTMRequest) -> None:
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
    text = request.text(request.valid)
    from simplepcfg.linguistics.controls.files import save_lstm
    from simplepcfg.linguistics.controls.lstm import LSTMConfig
    from simplepcfg.linguistics.controls.lstm_training import LSTMTraining, train_lstm
    from simplepcfg.runs.device import resolve_device
    from simplepcfg.runs.failures import resource_errors

    sizes = LSTMConfig(size=request.size, layers=request.layers, dropout=request.dropout)
    settings = LSTMTraining(
        epochs=request.epochs, minutes=request.minutes, batch_size=request.batch_size, seed=request.seed
    )
    where = resolve_device(request.device)
    with resource_errors("training the LSTM", "lower --batch-size or --size"):
        with stage(f"reading {text.name}"):
            corpus, preprocessing = text.corpus(request.seed)
        request.remark(corpus.notes)
        result = train_lstm(corpus, preprocessing, sizes, settings, where, lambda line: note(line, request.quiet))
        save_lstm(result.model, request.out)
    note(
        f"{request.out}: validation {result.valid.describe()}; {result.epochs:.1f} epochs of {len(corpus.train):,} "
        f"sentences, {result.seconds:.0f} s on {where}",
        request.quiet,
    )
