"""`simplepcfg evaluate`: runs, baselines and anyone's trees against a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simplepcfg.cli.options import Decode, Device, Json, Quiet
from simplepcfg.cli.output import note, refuse_unwritable, results_console, write_json
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.evaluation.report import EvaluationReport
    from simplepcfg.run import Run

NAME = "evaluate"
SUMMARY = "F1 and perplexity of runs and baselines."


def command(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN]... FILE",
            help="Run folders, left-branching, right-branching, random, oracle; last, trees or plain text.",
        ),
    ],
    predictions: Annotated[
        str | None,
        typer.Option("--predictions", metavar="FILE", help="Also score these bracketed trees against FILE."),
    ] = None,
    decode: Annotated[
        Decode,
        typer.Option("--decode", help="Of runs: the tree of the largest sum of span posteriors, or the most probable."),
    ] = Decode.mbr,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Also evaluate the runs together, by the mean of their span posteriors.")
    ] = False,
    json: Json = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Evaluate on bracketed trees (F1 and perplexity) or on plain text (perplexity alone).

    Each run's own preprocessing is applied to the file first; baselines and predictions take that of the
    first run, or the usual one (punctuation dropped, lower-cased). Perplexity has its denominator beside it.

    \b
    Example:
      simplepcfg evaluate runs/demo left-branching right-branching test.trees
      simplepcfg evaluate runs/demo test.txt --json scores.json
      simplepcfg evaluate --predictions parsed.trees test.trees
      simplepcfg evaluate runs/seed-1 runs/seed-2 test.trees --ensemble
    """
    *names, file = arguments
    if not names and predictions is None:
        raise InputError(f"nothing to evaluate on {file}; name a run folder, a baseline, or --predictions FILE")
    if ensemble and decode is Decode.viterbi:
        raise InputError("--ensemble averages span posteriors; leave out --decode viterbi")
    if json is not None:
        refuse_unwritable(json)
    from simplepcfg.evaluation.report import report_table, reports_to_json

    reports = evaluate_all(names, file, predictions, device, quiet, ensemble, decode.value)
    if json != "-":
        results_console().print(report_table(reports, title=f"on {file}"))
    if json is not None:
        write_json(reports_to_json(reports), json)


def evaluate_all(
    names: list[str],
    file: str,
    predictions: str | None,
    device: str,
    quiet: bool,
    together: bool = False,
    decode: str = "mbr",
) -> list["EvaluationReport"]:
    """Reports in the order of `names`; then, where asked for, of the runs together; the predictions' last."""
    from simplepcfg.api import load
    from simplepcfg.data.preprocessing import Preprocessing
    from simplepcfg.data.readers import read_sentences, read_trees, sniff
    from simplepcfg.evaluation.treebank import BASELINES, Treebank, refuse_misspelt_baseline

    runs: dict[str, Run] = {}
    for name in dict.fromkeys(names):
        if name not in BASELINES:
            refuse_misspelt_baseline(name)
            runs[name] = load(name, device)
    if together and len(runs) < 2:
        raise InputError(f"--ensemble has {len(runs)} run; name the folders of at least two different ones")
    if sniff(file) == "text":
        if together:
            raise InputError(f"--ensemble needs gold trees but {Path(file).name} is plain text; leave it out")
        _refuse_without_trees([name for name in names if name in BASELINES], predictions, file)
        sentences = list(read_sentences(file))
        return [runs[name].evaluate(sentences, name) for name in names]
    trees = list(read_trees(file))
    treebanks: dict[Preprocessing, Treebank] = {}

    def prepared(preprocessing: Preprocessing) -> Treebank:
        if preprocessing not in treebanks:
            treebanks[preprocessing] = Treebank(trees, preprocessing, file)
        return treebanks[preprocessing]

    common = next((run.preprocessing for run in runs.values()), Preprocessing())
    reports = [
        runs[name].evaluate_treebank(prepared(runs[name].preprocessing), name, decode=decode)
        if name in runs
        else prepared(common).baseline(name)
        for name in names
    ]
    if together:
        from simplepcfg.ensembles import Ensemble

        reports.append(Ensemble(list(runs.values())).evaluate_treebank(prepared(common)))
    if predictions is not None:
        guesses = trees if predictions == file else list(read_trees(predictions))  # a pipe has no second reading
        report, different = prepared(common).predictions(predictions, guesses)
        if different:
            note(f"{predictions}: {different} trees have other words than {file}; is it the same text?", quiet)
        reports.append(report)
    return reports


def _refuse_without_trees(baselines: list[str], predictions: str | None, file: str) -> None:
    for name in [*baselines, *([predictions] if predictions else [])]:
        raise InputError(f"{name} needs gold trees but {Path(file).name} is plain text; give a file of bracketed trees")
