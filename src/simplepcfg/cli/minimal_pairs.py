"""`simplepcfg test minimal-pairs`: is the acceptable sentence the more probable one?"""

from simplepcfg.cli.materials import Csv, models_and_files, show_accuracies, with_name
from simplepcfg.cli.options import Device, Json, Quiet
from simplepcfg.cli.requests import arg

NAME = "minimal-pairs"
SUMMARY = "Is the acceptable sentence of each pair the more probable one?"


def command(
    arguments: list[str] = arg(
        "RUN... FILE...", "Run folders or n-gram models, and files of pairs or folders of such files."
    ),
    json: Json = None,
    csv: Csv = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
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
    from simplepcfg.linguistics.minimal_pairs import (
        SUFFIXES,
        evaluate_minimal_pairs,
        read_minimal_pairs,
    )

    models, files = models_and_files(arguments, SUFFIXES)
    pairs = [pair for file in files for pair in read_minimal_pairs(file)]
    results = [with_name(evaluate_minimal_pairs(load_word_model(name, device), pairs), name) for name in models]
    show_accuracies(results, "accuracy in per cent [95 % interval]", json, csv, quiet)
