"""The span marginals of one sentence over its words, with the likeliest symbols of each span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from simplepcfg.data.batching import Batch
from simplepcfg.data.constraints import Constraints
from simplepcfg.data.preprocessing import Prepared
from simplepcfg.errors import InputError, require_whole
from simplepcfg.grammars import RankGrammar
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.marginals import ConstraintList, make_bonus, span_marginals
from simplepcfg.inference.sentences import Sentence
from simplepcfg.inference.trained_model import TrainedModel

# A chart of all symbols of longer sentences or larger grammars would take too long or too much memory.
MOST_NUMBERS = 1 << 25
LARGEST_RANK_GRAMMAR = 64


@dataclass(frozen=True, slots=True)
class SpanProbability:
    """A span over the words that the run sees: its marginal, and its likeliest symbols with theirs."""

    start: int
    end: int
    probability: float
    symbols: list[tuple[str, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SpanChart:
    """Marginals of all spans of two words or more; the words are those that the run looks at, as they were given.

    ``places`` has the index of each of them in the sentence: without punctuation that the run drops. The marginals
    add up to the number of words less one (of a run that adds ``<eos>``, with the spans that end in it left out, less).
    """

    words: list[str]
    places: list[int]
    spans: list[SpanProbability]

    def table(self) -> list[list[float]]:
        """Return ``table``, where ``table[i][j]`` is the marginal of the span (i, j)."""
        n = len(self.words)
        table = [[0.0] * (n + 1) for _ in range(n + 1)]
        for span in self.spans:
            table[span.start][span.end] = span.probability
        return table

    def to_svg(self) -> str:
        """Draw the triangle of marginals as an SVG file's text."""
        from simplepcfg.drawing import span_chart, standalone

        return standalone(span_chart(self.words, self.table()))

    _repr_svg_ = to_svg  # what notebooks show


def make_chart(
    run: TrainedModel, sentence: Sentence, constraints: Constraints | Mapping[str, object] | None, symbols: int
) -> SpanChart:
    """See ``Run.chart``."""
    require_whole("symbols", symbols, 0)
    if not run.has_trees:
        raise InputError(f"{run.name}: a model of kind {run.config.model.kind} has no spans; use an sn-pcfg")
    prepared = run.prepare([sentence])
    (item,) = prepared
    asked = None if constraints is None else [constraints]
    n = len(item.kept)
    cells = [(i, i + width) for width in range(2, n + 1) for i in range(n - width + 1)]
    likeliest = _likeliest_symbols(run, prepared, asked, cells, symbols) if symbols and cells else None
    if likeliest is None:
        (marginals,) = span_marginals(run, prepared, asked)
        rows = marginals.tolist()
        likeliest = [(rows[i][j], []) for i, j in cells]
    spans = [
        SpanProbability(i, j, _clamped(probability), names)
        for (i, j), (probability, names) in zip(cells, likeliest, strict=True)
    ]
    return SpanChart([item.words[place] for place in item.kept], list(item.kept), spans)


def _likeliest_symbols(
    run: TrainedModel,
    prepared: list[Prepared],
    constraints: ConstraintList | None,
    cells: list[tuple[int, int]],
    count: int,
) -> list[tuple[float, list[tuple[str, float]]]] | None:
    """Return, for each span, its marginal, which is the sum over symbols, and the likeliest symbols.

    None where a grammar cannot be asked for symbols, or they are too many.
    """
    bonus = make_bonus(constraints, prepared)
    rows = torch.tensor([(0, i, j) for i, j in cells])

    def compute(batch: Batch) -> list[list[tuple[float, list[tuple[str, float]]]] | None]:
        grammar = run.grammar_of(batch)
        if isinstance(grammar, RankGrammar) and grammar.nonterminals > LARGEST_RANK_GRAMMAR:
            return [None]  # its symbols can be asked for only with all rules written out
        if len(cells) * grammar.nonterminals > MOST_NUMBERS:
            return [None]
        marginals = grammar.symbol_marginals(
            batch.words, batch.lengths, spans=rows.to(run.device), span_bonus=bonus(batch)
        )
        best = marginals.topk(min(count, marginals.shape[-1]), -1)
        columns = (marginals.sum(-1).tolist(), best.values.tolist(), best.indices.tolist())
        return [
            [
                (total, [(f"NT-{k}", _clamped(value)) for value, k in zip(values, indices, strict=True) if value > 0])
                for total, values, indices in zip(*columns, strict=True)
            ]
        ]

    (answer,) = in_batches(run, [item.tokens for item in prepared], compute, lambda: None)
    return answer


def _clamped(probability: float) -> float:
    """Return a probability without what rounding adds beyond 0 and 1."""
    return min(max(probability, 0.0), 1.0)
