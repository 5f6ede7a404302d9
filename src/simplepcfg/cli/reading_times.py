"""`simplepcfg test reading-times`: does surprisal predict how long people read a word?"""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from simplepcfg.cli.materials import Csv, models_and_files, read_items, show_results
from simplepcfg.cli.options import Device, Json, Quiet
from simplepcfg.cli.output import note
from simplepcfg.cli.requests import arg, opt, options, takes
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from simplepcfg.linguistics.item_tables import ItemTable
    from simplepcfg.linguistics.reading_times import ReadingTimeGain

SUMMARY = "Does surprisal predict how long people read a word?"


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


@takes(ReadingTimesRequest)
def command(request: ReadingTimesRequest) -> None:
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
    for reason, count in used.left_out.items():
        note(f"{count:,} of {len(table.rows):,} words left out: {reason}", request.quiet)
    results = [replace(result, model=name) for name, result in zip(models, results, strict=True)]
    show_results(results, _table(results), request.json, request.csv)


def _word_counts(request: ReadingTimesRequest, table: "ItemTable") -> "Counter[str]":
    """Return how often words occur in the text of --frequencies, or in the table itself."""
    from simplepcfg.data.readers import open_text
    from simplepcfg.linguistics.word_predictors import token_counts

    if request.frequencies is None:
        note(
            "frequencies are those of the words in DATA itself; --frequencies FILE counts a larger text", request.quiet
        )
        return token_counts(" ".join(sentence) for sentence in table.texts())
    counts = token_counts(open_text(request.frequencies))
    if not counts:
        raise InputError(f"--frequencies {request.frequencies}: has no words; give a text, or leave it out")
    return counts


def _table(results: list["ReadingTimeGain"]) -> "Table":
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
