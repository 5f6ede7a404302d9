"""`simplepcfg evaluate`: runs, baselines and anyone's trees against a file."""

from typing import TYPE_CHECKING, Literal

from simplepcfg.cli.options import Device, Json, Quiet, Raw
from simplepcfg.cli.output import note, results_console, write_json, write_lines, write_text
from simplepcfg.cli.requests import arg, flag, opt, options, takes, written
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from simplepcfg.evaluation.columns import Column

SUMMARY = "F1 and perplexity of runs and baselines."
Format = Literal["table", "markdown"]


@options
class EvaluateRequest:
    """What to evaluate, on what, and what to show of it."""

    arguments: list[str] = arg(
        "[RUN]... FILE",
        "Run folders, folders of runs, n-gram models, left-branching, right-branching, random, oracle; "
        "last, trees, a dependency treebank (CoNLL-U) or text.",
    )
    predictions: list[str] | None = opt("--predictions", "FILE", "Also score these bracketed trees; repeatable.")
    decode: Literal["mbr", "exact-mbr", "viterbi"] = flag(
        "--decode",
        "mbr and exact-mbr: largest sum of span marginals, of which none is left out; viterbi: most probable.",
        "mbr",
    )
    ensemble: bool = flag("--ensemble", "Also evaluate the runs together, as one parser.")
    labels: bool = flag("--labels", "Also how symbols match gold labels and tags, by the most probable trees.")
    write_labels: str | None = written("--write-labels", "Write what symbols stand for in FILE, as RUN/labels.json.")
    interval: bool = flag("--interval", "Also 95 % intervals by a bootstrap over sentences.")
    compare: str | None = opt("--compare", "NAME", "Also p-values of the differences from this column.")
    output: Format = flag("--format", "What is printed.", "table")
    raw: Raw = False
    json: Json = None
    device: Device = "auto"
    quiet: Quiet = False


@takes(EvaluateRequest)
def command(request: EvaluateRequest) -> None:
    """Evaluate on bracketed trees (F1 and perplexity), a dependency treebank, or plain text (perplexity alone).

    Each run's own preprocessing is applied to the file first; baselines and predictions take that of the first run, or
    the usual one (punctuation dropped, lower-cased). Perplexity has its denominator beside it. A folder of run folders
    is a group, shown as mean ± standard deviation over its runs. Perplexities over different vocabularies are not
    compared. Runs without trees (hidden Markov models) and n-gram models have perplexity alone.

    CoNLL-U with heads is a dependency treebank, in any language: the table has the recall of the spans of its
    subtrees and the share of brackets that cross one, beside left, right branching and random trees.

    \b
    Example:
      simplepcfg evaluate runs/demo left-branching right-branching test.trees
      simplepcfg evaluate runs/demo test.txt --json scores.json
      simplepcfg evaluate english novel.txt --raw
      simplepcfg evaluate runs/spanish es_gsd-ud-test.conllu
      simplepcfg evaluate --predictions parsed.trees test.trees
      simplepcfg evaluate runs/demo test.trees --write-labels runs/demo/labels.json
      simplepcfg evaluate runs/seed-1 runs/seed-2 test.trees --ensemble
      simplepcfg evaluate runs/four runs/others test.trees --interval --compare runs/others
    """
    *names, file = request.arguments
    if not names and not request.predictions:
        raise InputError(f"{file} stands alone; name a run or a baseline (or --predictions FILE), then trees or text")
    if request.ensemble and request.decode == "viterbi":
        raise InputError("--ensemble combines span marginals; leave out --decode viterbi")
    from simplepcfg.evaluation.rendering import markdown_report, rich_table

    columns = _evaluate(request, names, file)
    title = f"on {file}"
    if request.json != "-" and request.output == "table":
        results_console().print(rich_table(columns, title))
    elif request.json != "-":
        write_lines([markdown_report(columns, title)])
    write_json(request.json, [column.to_dict() for column in columns])
    if request.write_labels is not None:
        from simplepcfg.data.readers import read_trees
        from simplepcfg.inference.labelling import learn_labels
        from simplepcfg.inference.run import load

        labels = learn_labels(load(names[0], request.device), list(read_trees(file)))
        write_text(request.write_labels, labels.to_json())


def _evaluate(request: EvaluateRequest, names: list[str], file: str) -> "list[Column]":
    """Return a column for each system, with intervals and comparisons if asked for.

    On a dependency treebank, where no single figure says much, there are baselines beside them.
    """
    from simplepcfg.data.readers import has_dependencies
    from simplepcfg.evaluation.columns import require_column, vocabulary_remark, with_comparisons, with_intervals
    from simplepcfg.evaluation.treebank import BASELINES
    from simplepcfg.inference.systems import System, evaluate_systems

    predictions, labels_file = request.predictions or [], request.write_labels
    added = BASELINES[:3] if has_dependencies(file) and labels_file is None else ()
    systems = [System.named(name) for name in [*names, *(name for name in added if name not in names)]]
    if labels_file is not None and (predictions or len(systems) != 1 or len(systems[0].folders) != 1):
        raise InputError(f"--write-labels {labels_file} is for the symbols of one run; name one run and FILE alone")
    if request.compare is not None and not request.ensemble:
        require_column(request.compare, [system.name for system in systems] + predictions)
    columns = evaluate_systems(
        systems,
        file,
        predictions=predictions,
        together=request.ensemble,
        decode=request.decode,
        labels=request.labels,
        raw=request.raw,
        device=request.device,
        remark=lambda text: note(text, request.quiet),
    )
    if (text := vocabulary_remark(columns)) is not None:
        note(text, request.quiet)
    if request.interval:
        columns = with_intervals(columns)
    if request.compare is not None:
        columns = with_comparisons(columns, request.compare)
    return columns
