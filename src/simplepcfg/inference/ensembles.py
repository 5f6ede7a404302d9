"""Ensembles: several runs as one parser, by the geometric mean of their span marginals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

from torch import Tensor

from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.readers import file_name, read_trees
from simplepcfg.data.trees import PHRASE_LABEL, SpanTree, as_tree
from simplepcfg.errors import InputError, shortened
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.treebank import Spans, Treebank
from simplepcfg.inference.marginals import span_marginals
from simplepcfg.inference.run import Run, load
from simplepcfg.inference.sentences import (
    Sentence,
    listed,
    nltk_trees,
    original_tree,
    split_sentences,
)
from simplepcfg.ops.mbr import best_trees
from simplepcfg.ops.modes import methods_without_modes
from simplepcfg.runs.run_folder import runs_inside

if TYPE_CHECKING:
    from nltk.tree import Tree

# Added to each marginal, so that a single run cannot exclude a span from the geometric mean.
LEAST_MARGINAL = 1e-3


def ensemble(runs: Iterable[Run | str | PathLike[str]], device: str = "auto") -> Ensemble:
    """Return a parser that combines several runs, given as runs, their folders or folders of such folders.

    It takes the tree with the largest sum, over its spans, of the geometric mean of the runs' marginals, each plus
    0.001: a span that one run finds improbable counts little. Raises InputError without runs or for a folder that
    cannot be loaded.

        simplepcfg.ensemble(["runs/seed-1", "runs/seed-2"]).parse(["the old man sees a dog ."])
    """
    if isinstance(runs, str | PathLike | Run) or not isinstance(runs, Iterable):
        raise InputError(f"runs is {runs!r}; give a list of runs or folders")
    members: list[Run] = []
    for run in runs:
        if isinstance(run, Run):
            members.append(run)
        elif isinstance(run, str | PathLike) and (folders := runs_inside(fspath(run))):
            members += [load(folder, device) for folder in folders]
        else:
            members.append(load(run, device))
    return Ensemble(members)


@methods_without_modes
class Ensemble:
    """Parser by what several runs say together.

    Each run preprocesses and encodes the sentences itself; all runs must keep the same words.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        if not runs:
            raise InputError("an ensemble of no runs; give at least one")
        for run in runs:
            if not run.config.model.has_trees:
                raise InputError(f"{run.name}: of kind {run.config.model.kind}, which has no trees; leave it out")
        self.runs = list(runs)

    @property
    def name(self) -> str:
        """Name in reports."""
        return f"geometric mean of {len(self.runs)} runs"

    def parse(self, sentences: Iterable[Sentence]) -> list[Tree]:
        """Return the tree of each sentence over its original words; see `Run.parse`."""
        return nltk_trees(self.parse_spans(sentences))

    def parse_spans(self, sentences: Iterable[Sentence]) -> list[SpanTree]:
        """Return the tree of each sentence as spans; see `Run.parse_spans`."""
        split = list(split_sentences(sentences, self.runs[0].preprocessing))
        prepared = [[run.prepare_words(words, tags) for words, tags in split] for run in self.runs]
        return [
            original_tree(item, [(i, j, PHRASE_LABEL) for i, j in spans])
            for item, spans in zip(prepared[0], self._decode(prepared), strict=True)
        ]

    def evaluate(self, data: str | PathLike[str] | Iterable[Sentence], name: str | None = None) -> EvaluationReport:
        """Return F1 on trees or a file of trees; combined span marginals have no likelihood and so no perplexity."""
        source = None
        if isinstance(data, str | PathLike):
            source = file_name(data)
            data = list(read_trees(source))
        items = listed(data)
        trees = [tree for item in items if (tree := as_tree(item)) is not None]
        if not items or len(trees) < len(items):
            raise InputError("an ensemble is evaluated on trees; evaluate single runs on sentences")
        return self.evaluate_treebank(Treebank(trees, self.runs[0].preprocessing, source), name)

    def evaluate_treebank(self, treebank: Treebank, name: str | None = None) -> EvaluationReport:
        """Return F1 on gold trees with the preprocessing of the first run."""
        prepared = [[run.preprocessing.apply(tree.words, tree.tags) for tree in treebank.original] for run in self.runs]
        decoded = self._decode(prepared)
        spans = [item.word_spans(chosen) for item, chosen in zip(treebank.prepared, decoded, strict=True)]
        return treebank.report(name or self.name, spans)

    def _decode(self, sentences: Sequence[list[Prepared]]) -> list[Spans]:
        """Return the spans of the tree of each sentence, which each of the runs has prepared."""
        total: list[Tensor] = []
        for run, prepared in zip(self.runs, sentences, strict=True):
            for one, other in zip(prepared, sentences[0], strict=True):
                if one.kept != other.kept or len(one.tokens) != len(other.tokens):
                    raise InputError(
                        # Quoted, not counted: callers pass sentences in parts, so a number here is not the file's line.
                        f"sentence {shortened(' '.join(one.words))!r}: {self.runs[0].name} sees {len(other.tokens)} "
                        f"tokens, {run.name} {len(one.tokens)}; an ensemble needs runs whose preprocessing keeps the "
                        "same words"
                    )
            tables = span_marginals(run, prepared, None, separators=True)
            logs = [(table + LEAST_MARGINAL).log() / len(self.runs) for table in tables]
            total = [a + b for a, b in zip(total, logs, strict=True)] if total else logs
        return [best_trees(table.exp()[None])[0] if len(table) > 2 else [] for table in total]
