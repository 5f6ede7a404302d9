"""`simplepcfg score`: how probable is each sentence."""

from typing import Annotated

import typer

from simplepcfg.cli.options import Device, Quiet, sentence_chunks
from simplepcfg.cli.output import note, write_lines
from simplepcfg.errors import InputError

NAME = "score"
SUMMARY = "Print the log-probability of each sentence."


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Folder of a trained run.")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="One sentence a line (.gz too); - is standard input.")
    ] = "-",
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Print the natural log-probability (nats) of each sentence, one number a line, in the input's order.

    Sentences of fewer than two words have no tree, and so -inf (unless the run adds <eos> to them).

    \b
    Example:
      echo "the dog sees a cat" | simplepcfg score runs/demo
      simplepcfg score runs/demo sentences.txt > scores.txt
    """
    from simplepcfg.api import load
    from simplepcfg.evaluation.treebank import BASELINES

    if run in BASELINES:
        raise InputError(f"{run} trees have no probability; give the folder of a trained run")
    model = load(run, device)
    note("unit: nats (natural log-probability), one number a line", quiet)
    for chunk in sentence_chunks(file, quiet):
        write_lines(f"{value:.6f}" for value in model.score(chunk))
