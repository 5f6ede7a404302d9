"""`simplepcfg test`: a model against linguistic materials, one command for each kind of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from simplepcfg.cli import reading_times
from simplepcfg.cli.materials import Csv, models_and_files, show_results
from simplepcfg.cli.options import Device, Json, Quiet
from simplepcfg.cli.output import note
from simplepcfg.cli.progress import shows_progress
from simplepcfg.cli.requests import arg, group, options, takes

if TYPE_CHECKING:
    from simplepcfg.linguistics.accuracy import Accuracy

SUMMARY = "Test runs on minimal pairs, test suites and reading times."

app = group(
    """Test runs on linguistic materials.

    \b
    Example:
      simplepcfg test minimal-pairs runs/demo blimp/anaphor_gender_agreement.jsonl
      simplepcfg test syntaxgym runs/demo suites/number_prep.json
      simplepcfg test reading-times runs/demo words.tsv
    """
)


@options
class AccuracyRequest:
    """Which models are judged on which files."""

    arguments: list[str] = arg("RUN... FILE...", "Run folders or n-gram models, and files or folders of files.")
    json: Json = None
    csv: Csv = None
    device: Device = "auto"
    quiet: Quiet = False


@app.command("minimal-pairs", short_help="Is the acceptable sentence of each pair the more probable one?")
@shows_progress
@takes(AccuracyRequest)
def minimal_pairs(request: AccuracyRequest) -> None:
    """Print the accuracy in per cent on each paradigm, with 95 % intervals, and the mean over paradigms.

    A pair is right when the acceptable sentence has the higher probability. Equal ones are ties, and wrong. "<unk>" is
    the share of pairs with a word that is not in the run's vocabulary. Sentences are as people write them: they are
    tokenised here, then prepared as the run wants them.

    Files, .gz too: .jsonl as BLiMP has them (sentence_good, sentence_bad, UID, linguistics_term); .tsv or .csv with
    the acceptable sentence and the other one, or with a header that has good and bad; .txt as Zorro has them, of two
    lines the first unacceptable.

    \b
    Example:
      simplepcfg test minimal-pairs runs/demo blimp/
      simplepcfg test minimal-pairs runs/a runs/b pairs.tsv --json accuracies.json
    """
    from simplepcfg.inference.word_models import load_word_model
    from simplepcfg.linguistics.minimal_pairs import SUFFIXES, evaluate_minimal_pairs, read_minimal_pairs

    models, files = models_and_files(request.arguments, SUFFIXES)
    pairs = [pair for file in files for pair in read_minimal_pairs(file)]
    results = [evaluate_minimal_pairs(load_word_model(name, request.device), pairs) for name in models]
    _show(models, results, "accuracy in per cent [95 % interval]", request)


@app.command("syntaxgym", short_help="Do surprisals of regions differ between conditions as predicted?")
@shows_progress
@takes(AccuracyRequest)
def syntaxgym(request: AccuracyRequest) -> None:
    """Print the share of items, in per cent, of which a suite's prediction holds, with 95 % intervals, and the mean.

    Suites are JSON in SyntaxGym's format: items with conditions, conditions with regions, formulas under "predictions"
    over the summed surprisals of regions. An item in which two sides of < or > are equal is a tie, and wrong. "<unk>"
    is the share of items with a word that is not in the run's vocabulary. Regions are tokenised as one running
    sentence. Every suite counts once in the mean.

    \b
    Example:
      simplepcfg test syntaxgym runs/demo suites/
      simplepcfg test syntaxgym runs/a runs/b suites/number_prep.json --csv accuracies.csv
    """
    from simplepcfg.inference.word_models import load_word_model
    from simplepcfg.linguistics.syntaxgym import evaluate_suites, read_suite

    models, files = models_and_files(request.arguments, (".json",))
    suites = [read_suite(file) for file in files]
    results = [evaluate_suites(load_word_model(name, request.device), suites) for name in models]
    _show(models, results, "items as predicted, in per cent [95 % interval]", request)


app.command("reading-times", short_help=reading_times.SUMMARY)(shows_progress(reading_times.command))


def _show(
    models: Sequence[str], evaluated: Sequence[Sequence["Accuracy"]], title: str, request: AccuracyRequest
) -> None:
    """Print a row for each set and model, and write all rows as JSON and CSV if paths are given.

    Models are called as the user names them, instead of by the folder of an installed grammar.
    """
    from simplepcfg.evaluation.rendering import rich_grid

    results = [[replace(entry, model=name) for entry in sets] for name, sets in zip(models, evaluated, strict=True)]
    entries = [entry for of_models in zip(*results, strict=True) for entry in of_models]
    header = ["", "model", "items", "accuracy", "ties", "<unk>", "known"]
    table = rich_grid(header, [*map(_cells, entries)], title, words=(0, 1))
    show_results([*chain(*results)], table, request.json, request.csv)
    if not all(entry.counted for entry in entries):
        note("predictions that ask for equal surprisals are not counted in the mean", request.quiet)


def _cells(entry: "Accuracy") -> list[str]:
    share = f"{100 * entry.accuracy:.1f} [{100 * entry.low:.1f}, {100 * entry.high:.1f}]"
    known = "–" if entry.known_accuracy is None else f"{100 * entry.known_accuracy:.1f}"
    unknown = f"{100 * entry.unknown_share:.0f} %"
    return [entry.name, entry.model, f"{entry.items:,}", share, f"{entry.ties:,}", unknown, known]
