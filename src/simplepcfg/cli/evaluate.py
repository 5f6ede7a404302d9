"""`simplepcfg evaluate`: runs, baselines and anyone's trees against a file."""

from enum import StrEnum
from typing import Annotated

import typer

from simplepcfg.cli.options import Decode, Device, Json, Quiet
from simplepcfg.cli.output import note, refuse_unwritable, results_console, write_json, write_lines
from simplepcfg.errors import InputError

NAME = "evaluate"
SUMMARY = "F1 and perplexity of runs and baselines."


class Format(StrEnum):
    """How the table is printed."""

    table = "table"
    markdown = "markdown"
    latex = "latex"
    json = "json"


def command(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN]... FILE",
            help="Run folders, folders of runs, left-branching, right-branching, random, oracle; last, trees or text.",
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
    groups: Annotated[
        list[str] | None,
    importance: Annotated[
        int,
        typer.Option(
            "--importance",
            metavar="K",
            min=0,
            help="Compound runs: also estimate log p by K samples of each sentence's vector.",
        ),
    ] = 0,
    json: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="NAME=RUN,RUN",
            help="Mean and standard deviation over these runs (or runs/seed-*) as one column; repeatable.",
        ),
    ] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="Also 95 % intervals by a bootstrap over sentences.")
    ] = False,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="NAME", help="Also p-values of the differences from this column."),
    ] = None,
    resamples: Annotated[
        int, typer.Option("--resamples", metavar="N", min=1, help="Draws of --interval and --compare.")
    ] = 1000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of these draws.")] = 0,
    output: Annotated[
        Format, typer.Option("--format", help="What is printed; latex needs the package booktabs.")
    ] = Format.table,
    json: Json = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Evaluate on bracketed trees (F1 and perplexity) or on plain text (perplexity alone).

    Each run's own preprocessing is applied to the file first; baselines and predictions take that of the
    first run, or the usual one (punctuation dropped, lower-cased). Perplexity has its denominator beside it.
    A folder of run folders is a group, shown as mean ± standard deviation over its runs.

    \b
    Example:
      simplepcfg evaluate runs/demo left-branching right-branching test.trees
      simplepcfg evaluate runs/demo test.txt --json scores.json
      simplepcfg evaluate --predictions parsed.trees test.trees
      simplepcfg evaluate runs/seed-1 runs/seed-2 test.trees --ensemble
      simplepcfg evaluate test.trees --group ours=runs/a-* --group theirs=runs/b-* --compare theirs
    """
    *names, file = arguments
    if not names and not groups and predictions is None:
        raise InputError(f"nothing to evaluate on {file}; name a run folder, a baseline, or --predictions FILE")
    if ensemble and decode is Decode.viterbi:
        raise InputError("--ensemble averages span posteriors; leave out --decode viterbi")
    if json is not None:
        refuse_unwritable(json)
    from simplepcfg.evaluation.columns import columns_to_json, refuse_unknown_column, with_comparisons, with_intervals
    from simplepcfg.evaluation.rendering import latex_report, markdown_report, rich_table
    from simplepcfg.systems import System, evaluate_systems

    systems = [*map(System.named, names), *map(System.group, groups or ())]
    if compare is not None and not ensemble:
        refuse_unknown_column(compare, [system.name for system in systems] + ([predictions] if predictions else []))
    columns = evaluate_systems(
        systems,
        file,
        predictions=predictions,
        together=ensemble,
        decode=decode.value,
        device=device,
        remark=lambda text: note(text, quiet),
    )
    if interval:
        columns = with_intervals(columns, resamples=resamples, seed=seed)
    if compare is not None:
        columns = with_comparisons(columns, compare, resamples=resamples, seed=seed)
    if json == "-" or output is Format.json:
        write_json(columns_to_json(columns), "-")
    elif output is Format.table:
        results_console().print(rich_table(columns, title=f"on {file}"))
    else:
        write_lines([(markdown_report if output is Format.markdown else latex_report)(columns, f"on {file}")])
    if json not in (None, "-"):
        write_json(columns_to_json(columns), str(json))
    reports = evaluate_all(names, file, predictions, device, quiet, ensemble, importance)
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
    importance: int = 0,
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
        raise InputError(f"--ensemble with {len(runs)} runs; name the folders of at least two")
    samples = {name: 0 if run.shares_rules else importance for name, run in runs.items()}
    if importance and not any(samples.values()):
        raise InputError(f"--importance {importance} but no compound run; log p of the others is exact, leave it out")
    if sniff(file) == "text":
        if together:
            raise InputError(f"--ensemble needs gold trees but {Path(file).name} is plain text; leave it out")
        _refuse_without_trees([name for name in names if name in BASELINES], predictions, file)
        sentences = list(read_sentences(file))
        return [runs[name].evaluate(sentences, name, importance=samples[name]) for name in names]
    trees = list(read_trees(file))
    treebanks: dict[Preprocessing, Treebank] = {}

    def prepared(preprocessing: Preprocessing) -> Treebank:
        if preprocessing not in treebanks:
            treebanks[preprocessing] = Treebank(trees, preprocessing, file)
        return treebanks[preprocessing]

    common = next((run.preprocessing for run in runs.values()), Preprocessing())
    reports = [
        runs[name].evaluate_treebank(prepared(runs[name].preprocessing), name, importance=samples[name])
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
