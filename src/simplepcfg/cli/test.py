"""`simplepcfg test`: a model against linguistic materials, one command for each kind of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated

from simplepcfg.cli.materials import models_and_files, read_items
from simplepcfg.cli.options import Device, Json, Quiet
from simplepcfg.cli.output import note, results_console, write_json, write_text
from simplepcfg.cli.progress import shows_progress
from simplepcfg.cli.requests import arg, group, opt, options, takes, written
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from simplepcfg.linguistics.accuracy import Accuracy
    from simplepcfg.linguistics.item_tables import ItemTable
    from simplepcfg.linguistics.reading_times import ReadingTimeGain
    from simplepcfg.linguistics.word_model import WordModel

SUMMARY = "Test runs on minimal pairs, test suites and reading times."
Csv = Annotated[str | None, written("--csv", "Also write the rows separated by commas.", ...)]

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
    from simplepcfg.linguistics.minimal_pairs import SUFFIXES, evaluate_minimal_pairs, read_minimal_pairs

    models, files = models_and_files(request.arguments, SUFFIXES)
    pairs = [pair for file in files for pair in read_minimal_pairs(file)]
    _judge(request, models, lambda model: evaluate_minimal_pairs(model, pairs), "accuracy in per cent [95 % interval]")


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
    from simplepcfg.linguistics.syntaxgym import evaluate_suites, read_suite

    models, files = models_and_files(request.arguments, (".json",))
    suites = [read_suite(file) for file in files]
    title = "items as predicted, in per cent [95 % interval]"
    _judge(request, models, lambda model: evaluate_suites(model, suites), title)


@options
class ReadingTimesRequest:
    """Which models predict which times, and how."""

    arguments: list[str] = arg("RUN... DATA.tsv", "Run folders or n-gram models, and a table with a row a word.")
    time: str = opt("--time", "COLUMN", "Which column holds the times.", "mean_rt")
    frequencies: str | None = opt("--frequencies", "FILE", "Text whose words are counted for frequencies.")
    folds: int = opt("--folds", "K", "Folds of the cross-validation.", 10, min=2)
    resamples: int = opt("--resamples", "N", "Resamples of the bootstrap over sentences.", 1000, min=1, max=100000)
    seed: int = opt("--seed", "N", "Seed of folds and bootstrap.", 0, min=0)
    json: Json = None
    csv: Csv = None
    device: Device = "auto"
    quiet: Quiet = False


@app.command("reading-times", short_help="Does surprisal predict how long people read a word?")
@shows_progress
@takes(ReadingTimesRequest)
def reading_times(request: ReadingTimesRequest) -> None:
    """Measure how much surprisal adds to a linear regression of log reading times on length and frequency of words.

    The gain is in log-likelihood a word, in nats, by cross-validation over sentences, with a 95 % interval by a
    bootstrap over sentences. The baseline has the length and log-frequency of this word and of the two before;
    surprisal is added for the same three words. Slopes are the change of the log time a bit, of this word and of those
    before. For other predictors take the table of score --regions to a regression of your own.

    DATA has columns item, word, a column of times, and perhaps sentence, zone and others: rows of the same item and
    sentence make a sentence. The first two words and the last of a sentence are left out, as are words that are
    unknown to any of the runs and the two after them, so that all runs are compared on the same words; the gain with
    these words stands beside.

    \b
    Example:
      simplepcfg test reading-times runs/demo words.tsv --frequencies train.txt
      simplepcfg test reading-times runs/a runs/b words.tsv --time first_pass
    """
    from simplepcfg.inference.word_models import load_word_model
    from simplepcfg.linguistics.reading_times import evaluate_reading_times

    models, files = models_and_files(request.arguments, (".tsv",))
    if len(files) > 1:
        raise InputError(f"{' '.join(files)}: are {len(files)} tables; give one")
    table = read_items(files[0], request.quiet)
    counts = _word_counts(request, table)
    results, used = evaluate_reading_times(
        [load_word_model(name, request.device) for name in models],
        table,
        counts,
        time=request.time,
        folds=request.folds,
        resamples=request.resamples,
        seed=request.seed,
    )
    if request.frequencies is None:
        note(
            "frequencies are those of the words in DATA itself; --frequencies FILE counts a larger text", request.quiet
        )
    for reason, count in used.left_out.items():
        note(f"{count:,} of {len(table.rows):,} words left out: {reason}", request.quiet)
    results = [replace(result, model=name) for name, result in zip(models, results, strict=True)]
    _show(results, _gain_table(results), request)


def _judge(
    request: AccuracyRequest, models: Sequence[str], evaluate: Callable[["WordModel"], list["Accuracy"]], title: str
) -> None:
    """Evaluate each model, print a row for each set and model, and write all rows as JSON and CSV if paths are given.

    Models are called as the user names them, instead of by the folder of an installed grammar.
    """
    from simplepcfg.evaluation.rendering import rich_grid
    from simplepcfg.inference.word_models import load_word_model

    results = [
        [replace(entry, model=name) for entry in evaluate(load_word_model(name, request.device))] for name in models
    ]
    entries = [entry for of_models in zip(*results, strict=True) for entry in of_models]
    header = ["", "model", "items", "accuracy", "ties", "<unk>", "known"]
    table = rich_grid(header, [*map(_cells, entries)], title, words=(0, 1))
    _show([*chain(*results)], table, request)
    if not all(entry.counted for entry in entries):
        note("predictions that ask for equal surprisals are not counted in the mean", request.quiet)


def _cells(entry: "Accuracy") -> list[str]:
    share = f"{100 * entry.accuracy:.1f} [{100 * entry.low:.1f}, {100 * entry.high:.1f}]"
    known = "–" if entry.known_accuracy is None else f"{100 * entry.known_accuracy:.1f}"
    unknown = f"{100 * entry.unknown_share:.0f} %"
    return [entry.name, entry.model, f"{entry.items:,}", share, f"{entry.ties:,}", unknown, known]


def _word_counts(request: ReadingTimesRequest, table: "ItemTable") -> "Counter[str]":
    """Return how often words occur in the text of --frequencies, or in the table itself."""
    from simplepcfg.data.readers import open_text
    from simplepcfg.linguistics.word_predictors import token_counts

    if request.frequencies is None:
        return token_counts(" ".join(sentence) for sentence in table.texts())
    counts = token_counts(open_text(request.frequencies))
    if not counts:
        raise InputError(f"--frequencies {request.frequencies}: has no words; give a text, or leave it out")
    return counts


def _gain_table(results: list["ReadingTimeGain"]) -> "Table":
    from simplepcfg.evaluation.rendering import rich_grid

    first, rows = results[0], []
    for row in results:
        every = _interval(row.gain_with_unknown, row.with_unknown_low, row.with_unknown_high)
        slopes = [f"{slope:.4g}" for slope in (row.slope, row.slope_prev1, row.slope_prev2)]
        rows.append([row.model, _interval(row.gain, row.low, row.high), every, *slopes])
    unknown = f"with unknown words ({first.words_with_unknown:,})"
    header = ["", "gain [95 %]", unknown, "slope", "1 before", "2 before"]
    title = f"gain in log-likelihood, 1/1000 nats a word, on log {first.time} of {first.words:,} words"
    return rich_grid(header, rows, title, words=(0,))


def _interval(value: float, low: float, high: float) -> str:
    return f"{1000 * value:.2f} [{1000 * low:.2f}, {1000 * high:.2f}]"


def _show(
    results: "Sequence[Accuracy | ReadingTimeGain]", table: "Table", request: AccuracyRequest | ReadingTimesRequest
) -> None:
    """Print a table of results, or JSON in its place, and write them to the files that are given."""
    from simplepcfg.evaluation.rendering import csv_text

    rows = [asdict(result) for result in results]
    if request.json != "-":
        results_console().print(table)
    write_json(request.json, rows)
    if request.csv is not None:
        write_text(request.csv, csv_text(list(rows[0]), rows))
