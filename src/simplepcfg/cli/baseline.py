"""`simplepcfg baseline ngram`: a control that `simplepcfg test` takes in place of a run."""

from pathlib import Path

from simplepcfg.cli.options import Quiet, Raw
from simplepcfg.cli.output import note
from simplepcfg.cli.progress import shows_progress
from simplepcfg.cli.requests import group, opt, written
from simplepcfg.errors import InputError, counted
from simplepcfg.progress import stage

SUMMARY = "Train a control: an n-gram model."

app = group(
    """Train a control to compare runs with.

    \b
    Example:
      simplepcfg baseline ngram --like runs/demo --out trigram.safetensors
    """
)


@app.command("ngram", short_help="An n-gram model by modified Kneser-Ney smoothing.")
@shows_progress
def ngram(
    out: str = written("--out", "Where the model is written.", ...),
    like: str = opt("--like", "RUN", "Take the vocabulary and the preprocessing of this run.", ...),
    train: str | None = opt("--train", "FILE", "Text, one sentence a line (.gz too).  [default: that of --like]"),
    order: int = opt("--order", "N", "Longest n-grams.", 3, min=1, max=10),
    raw: Raw = False,
    quiet: Quiet = False,
) -> None:
    """Train an interpolated n-gram model with modified Kneser-Ney smoothing.

    score, evaluate and every command of simplepcfg test take the file in place of a run. It has the vocabulary and the
    preprocessing of the run --like and, unless --train gives another text, counts the sentences that the run learned
    from: not those that were held out for validation. All sentences of --train FILE are counted. The file is in
    safetensors' format.

    \b
    Example:
      simplepcfg baseline ngram --like runs/demo --out trigram.safetensors
      simplepcfg baseline ngram --like english --train train.txt --order 5 --out five.safetensors
      simplepcfg test minimal-pairs runs/demo trigram.safetensors blimp/
    """
    if train is None and raw:
        raise InputError("--raw goes with a text; give --train FILE, too")
    place = Path(out)
    if out == "-" or (place.exists() and not place.is_file()):
        raise InputError(f"{place}: a model is written to a file, not to a pipe or a device; give --out FILE")
    from simplepcfg.linguistics.controls.ngram_files import save_ngram
    from simplepcfg.linguistics.controls.ngram_training import train_ngram
    from simplepcfg.linguistics.controls.text import read_control_text

    with stage(f"reading {train or f'the text of {like}'}"):
        text = read_control_text(like, train, raw)
    for remark in text.notes:
        note(remark, quiet)
    model = train_ngram(text.sentences, text.vocabulary, text.preprocessing, order, spelling=text.spelling)
    save_ngram(model, out)
    counts = ", ".join(f"{len(level):,} {length}-grams" for length, level in enumerate(model.levels, start=1))
    note(f"{out}: {counts}, from {counted(len(text.sentences), 'sentence')}", quiet)
