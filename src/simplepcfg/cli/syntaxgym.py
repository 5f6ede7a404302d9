"""`simplepcfg test syntaxgym`: do surprisals of regions differ between conditions as predicted?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simplepcfg.cli.materials import Csv, models_and_files, show_accuracies, with_name
from simplepcfg.cli.options import Device, Json, Quiet
from simplepcfg.cli.output import results_console
from simplepcfg.cli.requests import arg

if TYPE_CHECKING:
    from simplepcfg.linguistics.accuracy import Accuracy

NAME = "syntaxgym"
SUMMARY = "Do surprisals of regions differ between conditions as predicted?"


def command(
    arguments: list[str] = arg(
        "RUN... SUITE.json...", "Run folders, n-gram models or LSTMs, and suites or folders of suites."
    ),
    json: Json = None,
    csv: Csv = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Print the share of items, in per cent, of which a suite's prediction holds, with 95 % intervals, and the mean.

    Suites are JSON in SyntaxGym's format: items with conditions, conditions with regions, formulas under "predictions"
    over the summed surprisals of regions. An item in which two sides of < or > are equal is a tie, and wrong. "<unk>"
    is the share of items with a word that is not in the run's vocabulary. Regions are tokenised as one running
    sentence. Every suite counts once in the mean. If the 16 suites with known published scores are among them, these
    scores stand below, beside the same mean.

    \b
    Example:
      simplepcfg test syntaxgym runs/demo suites/
      simplepcfg test syntaxgym runs/a runs/b suites/number_prep.json --csv accuracies.csv
    """
    from simplepcfg.inference.word_models import load_word_model
    from simplepcfg.linguistics.syntaxgym import evaluate_suites, read_suite

    models, files = models_and_files(arguments, (".json",))
    suites = [read_suite(file) for file in files]
    results = [with_name(evaluate_suites(load_word_model(name, device), suites), name) for name in models]
    show_accuracies(results, "items as predicted, in per cent [95 % interval]", json, csv, quiet)
    if json != "-":
        _show_published(results)


def _show_published(results: Sequence[Sequence["Accuracy"]]) -> None:
    """Print the models' means beside published ones, if all suites of these were tested."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from simplepcfg.linguistics.published_suites import (
        PUBLISHED,
        SUITES,
        TRAINING_WORDS,
        mean_of_published_suites,
    )

    means = [(entries[0].model, mean_of_published_suites(entries)) for entries in results]
    if any(mean is None for _, mean in means):
        return
    title = f"mean of the {len(SUITES)} suites with published scores, by words of training text (Hu et al. 2020)"
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("", overflow="fold")
    for name in ("here", *TRAINING_WORDS):
        table.add_column(name, justify="right", no_wrap=True)
    for model, mean in means:
        table.add_row(Text(model), f"{100 * mean:.1f}" if mean is not None else "", *("" for _ in TRAINING_WORDS))
    table.add_section()
    for model, accuracies in PUBLISHED.items():
        table.add_row(model, "", *(f"{accuracy:.1f}" for accuracy in accuracies))
    results_console().print(table)
