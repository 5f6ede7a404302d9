"""`simplepcfg test syntaxgym`: do surprisals of regions differ between conditions as predicted?"""

from simplepcfg.cli.materials import Csv, models_and_files, show_accuracies, with_name
from simplepcfg.cli.options import Device, Json, Quiet
from simplepcfg.cli.requests import arg

NAME = "syntaxgym"
SUMMARY = "Do surprisals of regions differ between conditions as predicted?"


def command(
    arguments: list[str] = arg(
        "RUN... SUITE.json...", "Run folders or n-gram models, and suites or folders of suites."
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
    sentence. Every suite counts once in the mean.

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
