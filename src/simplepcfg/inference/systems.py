"""Evaluation of several systems on one file: runs, groups of runs, baselines and predicted trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

from simplepcfg.data.dependencies import DependencyTree
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.raw_text import LOOKED_AT, paragraph_remark, untokenized_remark
from simplepcfg.data.readers import has_dependencies, read_sentences, read_trees, sniff
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError, SimplePCFGError
from simplepcfg.evaluation.columns import Column
from simplepcfg.evaluation.dependency_treebank import make_treebank, read_gold
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.treebank import BASELINES, Treebank, check_baseline_name
from simplepcfg.inference.evaluation import evaluate_ngram
from simplepcfg.inference.run import Run, load
from simplepcfg.inference.sentences import Sentence
from simplepcfg.linguistics.controls.ngram_files import is_ngram_file, load_ngram
from simplepcfg.pretrained import run_directory
from simplepcfg.progress import stage
from simplepcfg.runs.run_folder import RunFolder, runs_inside

Remark = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class System:
    """A system with one name: a baseline, a run's folder, the folders of a group of runs, or a file.

    A file holds an n-gram model, which has a perplexity and no trees.
    """

    name: str
    folders: tuple[str, ...] = ()  # none: the name is a baseline's or a file's
    grouped: bool = False
    file: str | None = None

    @classmethod
    def named(cls, name: str) -> System:
        """Return the system of a name: a baseline, a run's folder, a folder of runs (a group), or a model's file."""
        if name in BASELINES:
            return cls(name)
        if is_ngram_file(name):
            return cls(name, file=name)
        check_baseline_name(name)
        inner = runs_inside(name)
        return cls(name, tuple(inner), grouped=True) if inner else cls(name, (name,))


def evaluate_systems(
    asked: Sequence[System | str],
    file: str,
    *,
    predictions: Sequence[str] = (),
    together: bool = False,
    ensemble_of: Sequence[str] = (),
    decode: str = "mbr",
    labels: bool = False,
    raw: bool = False,
    device: str = "auto",
    remark: Remark = lambda text: None,
) -> list[Column]:
    """Return a column for each system, in order, then for the ensemble of all runs if asked for, then predictions.

    A string is a baseline's name, a run's folder, or a folder of runs, which is a group, as ``System.named`` has it.
    `ensemble_of` are the folders of the runs that are evaluated together, which must be among those of the systems; all
    of them by default. Each run's own preprocessing is applied to the file; baselines and predictions take that of the
    first run. Runs without trees (hidden Markov models) and n-gram models have perplexity alone. With `labels`
    the symbols of the runs' most probable trees, and those of predictions, are compared with gold labels. With `raw`
    the file holds paragraphs, which are split into sentences and words. A CoNLL-U file with heads is a dependency
    treebank: systems have the recall of its subtrees and the share of brackets that cross one in place of F1.
    """
    systems = [System.named(system) if isinstance(system, str) else system for system in asked]
    folders = _run_folders(systems, predictions, together)
    is_text = sniff(file) == "text" and not has_dependencies(file)
    if is_text:
        _require_trees(systems, predictions, together, labels, file)
    elif raw:
        raise InputError(f"--raw is for text but {file} holds trees; leave it out")
    models = {system.file: load_ngram(system.file) for system in systems if system.file is not None}
    each = [RunFolder(run_directory(folder)).read_preprocessing() for folder in folders]
    each += [model.preprocessing for model in models.values()]
    common = each[0] if each else Preprocessing()
    if is_text and any(preprocessing.tokenize != common.tokenize for preprocessing in each):
        raise InputError("some of the runs tokenise text and others do not; evaluate them one after the other")
    gold = [] if is_text else read_gold(file)
    same = [item.tree if isinstance(item, DependencyTree) else item for item in gold]  # a pipe is read once
    predicted = {path: same if path == file else list(read_trees(path)) for path in predictions}

    @cache
    def treebank(preprocessing: Preprocessing) -> Treebank:
        return make_treebank(gold, preprocessing, file)

    items: Sequence[Sentence] = _read_text(file, common, raw, remark) if is_text else treebank(common).original
    loaded: dict[str, Run] = {}  # only if all are needed at once: one after the other, many large ones fit
    reports: dict[str, EvaluationReport] = {}
    for folder in folders:
        run = load(folder, device)
        if together:
            loaded[folder] = run
        if not (is_text or run.has_trees):
            kind = run.config.model.kind
            if together:
                raise InputError(f"ensemble: {folder} is of kind {kind}, which has no span marginals; leave it out")
            remark(f"{folder}: a model of kind {kind} has no trees; only its perplexity is shown")
        with _naming(folder), stage(f"evaluating {folder}"):
            if is_text:
                reports[folder] = run.evaluate(items, folder)
                continue
            own = treebank(run.preprocessing)
            reports[folder] = run.evaluate(own, folder, decode=decode, labels=labels)
            if labels and reports[folder].labels is None and run.has_trees:
                remark(f"{folder}: its most probable trees have no symbols to compare with gold labels")
    columns = []
    for system in systems:
        of_system = tuple(reports[folder] for folder in system.folders)
        if system.file is not None:
            of_system = (evaluate_ngram(models[system.file], items, system.name),)
        elif not of_system:
            of_system = (treebank(common).baseline(system.name),)
        columns.append(Column(system.name, of_system, system.grouped))
    if together:
        from simplepcfg.inference.ensembles import Ensemble

        group = Ensemble([loaded[folder] for folder in ensemble_of or folders])
        columns.append(Column(group.name, (group.evaluate_treebank(treebank(common)),)))
    for path, trees in predicted.items():
        columns.append(_of_predictions(path, trees, treebank(common), file, labels, remark))
    return columns


def _of_predictions(
    path: str, trees: Sequence[SpanTree], treebank: Treebank, file: str, labels: bool, remark: Remark
) -> Column:
    """Return the column of the trees of a file."""
    report, different = treebank.predictions(path, trees)
    if different:
        remark(f"{path}: {different} trees have other words than {file}; is it the same text?")
    if labels:
        report = replace(report, labels=treebank.labels(trees))
    return Column(report.name, (report,))


def _run_folders(systems: Sequence[System], predictions: Sequence[str], together: bool) -> list[str]:
    """Return the folders of all runs, each once. Raises InputError for what is named twice, or is no trained run."""
    twice = next((path for path in predictions if list(predictions).count(path) > 1), None)
    if twice is not None:
        raise InputError(f"predictions {twice} is given twice; give each file once")
    folders = list(dict.fromkeys(folder for system in systems for folder in system.folders))
    for folder in folders:
        run_folder = RunFolder(run_directory(folder))
        run_folder.require(run_folder.config, run_folder.vocabulary, run_folder.model)
    if together and len(folders) < 2:
        raise InputError(f"an ensemble has {len(folders)} run; name the folders of at least two different ones")
    return folders


def _read_text(file: str, preprocessing: Preprocessing, raw: bool, remark: Remark) -> list[list[str]]:
    """Return the sentences of a text, with a remark if they look otherwise than `preprocessing` splits them."""
    sentences = list(read_sentences(file, split=preprocessing.split, raw=raw, language=preprocessing.language))
    looks = None if raw else (paragraph_remark if preprocessing.tokenize else untokenized_remark)(sentences[:LOOKED_AT])
    if looks is not None:
        remark(f"{file}: {looks}; --raw splits it into sentences and words")
    return sentences


def unique_names(runs: Iterable[Run]) -> dict[str, Run]:
    """Return runs by the names of their folders; the second of two with the same name gets the suffix -2."""
    named: dict[str, Run] = {}
    for run in runs:
        base = run.directory.resolve().name if run.directory is not None else run.name
        name, number = base, 2
        while name in named:
            name, number = f"{base}-{number}", number + 1
        named[name] = run
    return named


@contextmanager
def _naming(folder: str) -> Iterator[None]:
    """Add the run's folder to errors inside the context."""
    try:
        yield
    except SimplePCFGError as error:
        if folder not in str(error):
            error.args = (f"{folder}: {error}",)
        raise


def _require_trees(
    systems: Iterable[System], predictions: Sequence[str], together: bool, labels: bool, file: str
) -> None:
    if labels:
        raise InputError(f"--labels needs gold trees but {file} is plain text; leave it out")
    if together:
        raise InputError(f"an ensemble needs gold trees but {file} is plain text; leave it out")
    baselines = [system.name for system in systems if not system.folders and system.file is None]
    for name in [*baselines, *predictions]:
        raise InputError(f"{name} needs gold trees but {file} is plain text; give a file of bracketed trees")
