"""Ensembles: several runs as one parser, by a mean of their span marginals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from simplepcfg.data.batching import evaluation_batches
from simplepcfg.data.constraints import token_bonuses
from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.readers import read_trees
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.likelihood import MAX_CELLS
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.treebank import Spans, Treebank
from simplepcfg.inference.batches import blocks
from simplepcfg.inference.marginals import ConstraintList, make_bonus, span_marginals
from simplepcfg.inference.member_weights import WEIGHTS, agreement_weights
from simplepcfg.inference.parsing import mbr_spans
from simplepcfg.inference.run import Run, load
from simplepcfg.inference.sentences import (
    Sentence,
    as_tree,
    listed,
    nltk_trees,
    original_tree,
    shortened,
    split_sentences,
)
from simplepcfg.ops.mbr import best_trees
from simplepcfg.runs.run_folder import runs_inside

if TYPE_CHECKING:
    from nltk.tree import Tree

# Ways to combine runs, and what reports call the result.
MEANS = {"geometric": "geometric mean", "arithmetic": "arithmetic mean"}
# Added to each marginal, so that a single run cannot exclude a span from the geometric mean.
LEAST_MARGINAL = 1e-3

Tagged = Sequence[tuple[Sequence[str], Sequence[str] | None]]


def ensemble(
    runs: Iterable[Run | str | PathLike[str]], device: str = "auto", *, by: str = "geometric", weigh: str = "equal"
) -> Ensemble:
    """Return a parser that combines several runs, given as runs, their folders or folders of such folders.

    `by="geometric"` takes the tree with the largest sum, over its spans, of the geometric mean of the runs' marginals,
    each plus 0.001: a span that one run finds improbable counts little. "arithmetic" takes their arithmetic mean. The
    runs count alike, or with `weigh="agreement"` by how much their trees agree with those of the others. Raises
    InputError without runs or for a folder that cannot be loaded.

        simplepcfg.ensemble(["runs/seed-1", "runs/seed-2"], weigh="agreement").parse(["the old man sees a dog ."])
    """
    if isinstance(runs, str):
        raise InputError(f"runs is the single string {runs!r}; give a list of runs or folders")
    members: list[Run] = []
    for run in runs:
        if isinstance(run, Run):
            members.append(run)
        else:
            members += [load(folder, device) for folder in runs_inside(fspath(run)) or [fspath(run)]]
    return Ensemble(members, by=by, weigh=weigh)


class Ensemble:
    """Parser by what several runs say together.

    Each run preprocesses and encodes the sentences itself; all runs must keep the same words.
    """

    def __init__(self, runs: Sequence[Run], *, by: str = "geometric", weigh: str = "equal") -> None:
        if not runs:
            raise InputError("an ensemble of no runs; give at least one")
        if by not in MEANS:
            raise InputError(f"by = {by!r}; take one of {', '.join(MEANS)}")
        if weigh not in WEIGHTS:
            raise InputError(f"weigh = {weigh!r}; take one of {', '.join(WEIGHTS)}")
        self.runs, self.by, self.weigh = list(runs), by, weigh

    @property
    def name(self) -> str:
        """Name in reports."""
        base = f"{MEANS[self.by]} of {len(self.runs)} runs"
        return base if self.weigh == "equal" else f"{base}, by {self.weigh}"

    def weights(self, sentences: Iterable[Sentence] = ()) -> list[float]:
        """Return how much each run counts for these sentences, of 1; only agreement depends on them."""
        return self._weights(list(split_sentences(sentences, self.runs[0].preprocessing)), None)

    def _weights(self, split: Tagged, constraints: ConstraintList | None) -> list[float]:
        if self.weigh == "agreement":
            return agreement_weights([self._member_trees(run, split, constraints) for run in self.runs])
        return [1 / len(self.runs)] * len(self.runs)

    def _member_trees(self, run: Run, split: Tagged, constraints: ConstraintList | None) -> list[Spans]:
        """Return the spans of one run's own trees over its tokens."""
        words = [(words, run.preprocessing.apply(words, tags)) for words, tags in split]
        bonus = make_bonus(constraints, words, run.device)
        return mbr_spans(run, [item.tokens for _, item in words], bonus)

    def parse(self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None) -> list[Tree]:
        """Return the tree of each sentence over its original words; see `Run.parse`."""
        return nltk_trees(self.parse_spans(sentences, constraints))

    def parse_spans(self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None) -> list[SpanTree]:
        """Return the tree of each sentence as spans; see `Run.parse_spans`."""
        split = list(split_sentences(sentences, self.runs[0].preprocessing))
        return self._trees(split, constraints, self._weights(split, constraints))

    def parse_blocks(
        self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None
    ) -> Iterator[list[SpanTree]]:
        """Yield lists of trees that take seconds each; see `Run.parse_blocks`."""
        split = list(split_sentences(sentences, self.runs[0].preprocessing))
        if constraints is not None:  # All constraints are checked before the first block is computed.
            prepare = self.runs[0].preprocessing.apply
            token_bonuses(constraints, [(words, prepare(words, tags)) for words, tags in split])
        weights = self._weights(split, constraints)
        for part in blocks(self.runs[0], [len(words) for words, _ in split]):
            yield self._trees(split[part], None if constraints is None else constraints[part], weights)

    def _trees(self, split: Tagged, constraints: ConstraintList | None, weights: Sequence[float]) -> list[SpanTree]:
        decoded = self._decode(split, constraints, weights)
        prepared = [self.runs[0].preprocessing.apply(words, tags) for words, tags in split]
        return [
            original_tree(words, item, spans) for (words, _), item, spans in zip(split, prepared, decoded, strict=True)
        ]

    def evaluate(self, data: str | PathLike[str] | Iterable[Sentence], name: str | None = None) -> EvaluationReport:
        """Return F1 on trees or a file of trees; combined span marginals have no likelihood and so no perplexity."""
        items = list(read_trees(data)) if isinstance(data, str | PathLike) else listed(data)
        trees = [tree for item in items if (tree := as_tree(item)) is not None]
        if not items or len(trees) < len(items):
            raise InputError("an ensemble is evaluated on trees; evaluate single runs on sentences")
        source = fspath(data) if isinstance(data, str | PathLike) else None
        return self.evaluate_treebank(Treebank(trees, self.runs[0].preprocessing, source), name)

    def evaluate_treebank(self, treebank: Treebank, name: str | None = None) -> EvaluationReport:
        """Return F1 on gold trees with the preprocessing of the first run."""
        split = [(tree.words, tree.tags) for tree in treebank.original]
        decoded = self._decode(split, None, self._weights(split, None))
        spans = [item.word_spans(chosen) for item, chosen in zip(treebank.prepared, decoded, strict=True)]
        return treebank.report(name or self.name, spans)

    def _decode(self, sentences: Tagged, constraints: ConstraintList | None, weights: Sequence[float]) -> list[Spans]:
        total: list[Tensor] = []
        first: list[Prepared] = []
        for run, weight in zip(self.runs, weights, strict=True):
            prepared = [run.preprocessing.apply(words, tags) for words, tags in sentences]
            if not first:
                first = prepared
            self._refuse_other_words(run, sentences, first, prepared)
            pairs = [(words, item) for (words, _), item in zip(sentences, prepared, strict=True)]
            tables = span_marginals(run, pairs, constraints, separators=True)
            if self.by == "geometric":
                tables = [(table + LEAST_MARGINAL).log() for table in tables]
            if self.weigh != "equal" or self.by == "geometric":
                tables = [weight * table for table in tables]
            total = [a + b for a, b in zip(total, tables, strict=True)] if total else tables
        if self.by == "geometric":
            total = [table.exp() for table in total]
        forbidden = None
        if constraints is not None:
            bonuses = token_bonuses(constraints, [(w, item) for (w, _), item in zip(sentences, first, strict=True)])
            forbidden = [None if bonus is None else bonus == -torch.inf for bonus in bonuses]
        return _trees(total, forbidden)

    def _refuse_other_words(
        self, run: Run, sentences: Tagged, first: Sequence[Prepared], prepared: Sequence[Prepared]
    ) -> None:
        for (words, _), one, other in zip(sentences, first, prepared, strict=True):
            if one.kept != other.kept or len(one.tokens) != len(other.tokens):
                raise InputError(
                    # Quoted, not counted: callers pass sentences in parts, so a number here is not the file's line.
                    f"sentence {shortened(words)!r}: {self.runs[0].name} sees {len(one.tokens)} tokens, {run.name} "
                    f"{len(other.tokens)}; an ensemble needs runs whose preprocessing keeps the same words"
                )


def _trees(tables: Sequence[Tensor], forbidden: Sequence[Tensor | None] | None) -> list[Spans]:
    """Return the tree with the largest sum of each table of marginals [tokens + 1, tokens + 1]."""
    trees: list[Spans] = [[] for _ in tables]
    places = [index for index, table in enumerate(tables) if table.shape[0] > 2]
    sizes = [tables[index].shape[0] - 1 for index in places]
    for chosen in evaluation_batches(sizes, max_cells=MAX_CELLS):
        posts = sizes[chosen[-1]] + 1
        stacked = torch.zeros(len(chosen), posts, posts)
        mask = torch.zeros(len(chosen), posts, posts, dtype=torch.bool)
        for row, k in enumerate(chosen):
            here = tables[places[k]]
            stacked[row, : len(here), : len(here)] = here
            bars = None if forbidden is None else forbidden[places[k]]
            if bars is not None:
                mask[row, : len(here), : len(here)] = bars
        lengths = torch.tensor([sizes[k] for k in chosen])
        for k, spans in zip(chosen, best_trees(stacked, lengths, None if forbidden is None else mask), strict=True):
            trees[places[k]] = spans
    return trees
