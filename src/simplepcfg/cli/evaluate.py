"""`simplepcfg evaluate`: runs, baselines and anyone's trees against a file."""

from typing import Annotated, Literal

from simplepcfg.cli.options import By, Decode, Device, Json, Quiet, Raw, Weigh
from simplepcfg.cli.output import note, refuse_unwritable, results_console, write_json, write_lines, write_text
from simplepcfg.cli.requests import arg, flag, opt
from simplepcfg.errors import InputError

NAME = "evaluate"
SUMMARY = "F1 and perplexity of runs and baselines."


Format = Literal["table", "markdown", "latex", "json"]


def command(
    arguments: Annotated[
        list[str],
        arg(
            "[RUN]... FILE",
            "Run folders, folders of runs, n-gram models, LSTMs, left-branching, right-branching, random, oracle; "
            "last, trees or text.",
        ),
    ],
    predictions: Annotated[
        list[str] | None, opt("--predictions", "FILE", "Also score these bracketed trees; repeatable.")
    ] = None,
    decode: Annotated[
        Decode, flag("--decode", "Of runs: the tree of the largest sum of span marginals, or the most probable.")
    ] = "mbr",
    ensemble: Annotated[bool, flag("--ensemble", "Also evaluate the runs together, as one parser.")] = False,
    by: Annotated[
        By, flag("--by", "With --ensemble: by the geometric or arithmetic mean of span marginals, or votes of trees.")
    ] = "geometric",
    weigh: Annotated[
        Weigh, flag("--weigh", "With --ensemble: by what each run counts; never by gold trees.")
    ] = "equal",
    labels: Annotated[
        bool, flag("--labels", "Also how symbols match gold labels and tags, by the most probable trees.")
    ] = False,
    write_labels: Annotated[
        str | None, opt("--write-labels", "FILE", "Write each symbol's gold label, for parse --labels.")
    ] = None,
    importance: Annotated[
        int,
        opt("--importance", "K", "Compound runs: also estimate log p by K samples of each sentence's vector.", min=0),
    ] = 0,
    groups: Annotated[
        list[str] | None,
        opt(
            "--group",
            "NAME=RUN,RUN",
            "Mean and standard deviation over these runs (or runs/seed-*) as one column; repeatable.",
        ),
    ] = None,
    interval: Annotated[bool, flag("--interval", "Also 95 % intervals by a bootstrap over sentences.")] = False,
    compare: Annotated[
        str | None, opt("--compare", "NAME", "Also p-values of the differences from this column.")
    ] = None,
    resamples: Annotated[int, opt("--resamples", "N", "Draws of --interval and --compare.", min=1)] = 1000,
    seed: Annotated[int, opt("--seed", "N", "Of these draws.", min=0, max=2**63 - 1)] = 0,
    output: Annotated[Format, flag("--format", "What is printed; latex needs the package booktabs.")] = "table",
    sentences: Annotated[
        str | None, opt("--sentences", "FILE", "Also a row a sentence: F1, nats, length, unknown words.")
    ] = None,
    csv: Annotated[str | None, opt("--csv", "FILE", "Also a row a system, separated by commas.")] = None,
    raw: Raw = False,
    json: Json = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Evaluate on bracketed trees (F1 and perplexity) or on plain text (perplexity alone).

    Each run's own preprocessing is applied to the file first; baselines and predictions take that of the
    first run, or the usual one (punctuation dropped, lower-cased). Perplexity has its denominator beside it.
    A folder of run folders is a group, shown as mean ± standard deviation over its runs. Perplexities over different
    vocabularies are not compared. Runs without trees (hidden Markov models), n-gram
    models and LSTMs have perplexity alone.

    \b
    Example:
      simplepcfg evaluate runs/demo left-branching right-branching test.trees
      simplepcfg evaluate runs/demo test.txt --json scores.json
      simplepcfg evaluate english novel.txt --raw
      simplepcfg evaluate english test.trees --sentences rows.tsv --csv table.csv
      simplepcfg evaluate --predictions parsed.trees test.trees
      simplepcfg evaluate runs/demo test.trees --labels --write-labels labels.json
      simplepcfg evaluate runs/seed-1 runs/seed-2 test.trees --ensemble
      simplepcfg evaluate runs/eight test.trees --ensemble --by trees --weigh agreement
      simplepcfg evaluate test.trees --group ours=runs/a-* --group theirs=runs/b-* --compare theirs
    """
    *names, file = arguments
    if not names and not groups and not predictions:
        from simplepcfg.evaluation.treebank import BASELINES
        from simplepcfg.inference.word_models import names_word_model

        if file in BASELINES or names_word_model(file):
            raise InputError(f"nothing to evaluate {file} on; give a file of trees or sentences after it")
        raise InputError(f"nothing to evaluate on {file}; name a run folder, a baseline, or --predictions FILE")
    if ensemble and decode == "viterbi":
        raise InputError("--ensemble combines span marginals; leave out --decode viterbi")
    if not ensemble and (by != "geometric" or weigh != "equal"):
        raise InputError("--by and --weigh are for runs together; give --ensemble, too")
    for path in (json, sentences, csv, write_labels):
        if path is not None:
            refuse_unwritable(path)
    from simplepcfg.cli.label_output import confusion_lines, print_confusion, write_mapping
    from simplepcfg.evaluation.columns import (
        columns_to_json,
        require_column,
        vocabulary_remark,
        with_comparisons,
        with_intervals,
    )
    from simplepcfg.evaluation.flat_tables import (
        SENTENCE_COLUMNS,
        SYSTEM_COLUMNS,
        as_csv,
        sentence_rows,
        system_rows,
    )
    from simplepcfg.evaluation.rendering import latex_report, markdown_report, rich_table
    from simplepcfg.inference.systems import System, evaluate_systems

    systems = [*map(System.named, names), *map(System.group, groups or ())]
    if write_labels is not None and (len(systems) + len(predictions or ()) != 1 or len(systems[0].folders) != 1):
        raise InputError(f"--write-labels {write_labels} is for the symbols of one run; name one run and FILE alone")
    if compare is not None and not ensemble:
        require_column(compare, [system.name for system in systems] + (predictions or []))
    columns = evaluate_systems(
        systems,
        file,
        predictions=predictions or (),
        together=ensemble,
        by=by,
        weigh=weigh,
        decode=decode,
        importance=importance,
        labels=labels or write_labels is not None,
        raw=raw,
        device=device,
        remark=lambda text: note(text, quiet),
    )
    if (text := vocabulary_remark(columns)) is not None:
        note(text, quiet)
    if interval:
        columns = with_intervals(columns, resamples=resamples, seed=seed)
    if compare is not None:
        columns = with_comparisons(columns, compare, resamples=resamples, seed=seed)
    if json == "-" or output == "json":
        write_json("-", columns_to_json(columns))
    elif output == "table":
        results_console().print(rich_table(columns, title=f"on {file}"))
        if labels:
            print_confusion(columns)
    else:
        write_lines([(markdown_report if output == "markdown" else latex_report)(columns, f"on {file}")])
        if labels:
            write_lines(confusion_lines(columns, latex=output == "latex"))
    if json not in (None, "-"):
        write_json(str(json), columns_to_json(columns))
    if sentences is not None:
        write_text(sentences, as_csv(SENTENCE_COLUMNS, sentence_rows(columns), "\t"))
    if csv is not None:
        write_text(csv, as_csv(SYSTEM_COLUMNS, system_rows(columns)))
    if write_labels is not None:
        write_mapping(columns[0], systems[0].folders[0], write_labels)
