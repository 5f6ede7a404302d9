"""Each question of the JSON interface, asked of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from simplepcfg.data.trees import SpanTree
from simplepcfg.drawing import span_chart, surprisal_bars, tree_picture
from simplepcfg.errors import InputError
from simplepcfg.inference.labelled_trees import ScoredTree
from simplepcfg.inference.run import Run
from simplepcfg.serving import messages
from simplepcfg.serving.limits import Limits


@dataclass(frozen=True, slots=True)
class Question:
    """A path below /api, the messages that go in and out, and the function between them."""

    name: str
    summary: str
    request: type[BaseModel]
    reply: type[BaseModel]
    answer: Callable[[Run, Any, Limits], BaseModel]


def score(run: Run, request: messages.ScoreRequest, limits: Limits) -> messages.ScoreReply:
    """Answer by `Run.score`."""
    words = _words(run, request.sentence, limits)
    return messages.ScoreReply(**_scores(run, words, _constraints(request.constraints)))


def parse(run: Run, request: messages.ParseRequest, limits: Limits) -> messages.ParseReply:
    """Answer by `Run.parse`."""
    words = _words(run, request.sentence, limits)
    constraints = _constraints(request.constraints)
    _require_trees(run)
    (tree,) = run.parse_spans([words], [constraints], decode=request.decode)
    scores = _scores(run, words, constraints)
    return messages.ParseReply(**scores, tree=_tree(tree, None, request.svg))


def chart(run: Run, request: messages.ChartRequest, limits: Limits) -> messages.ChartReply:
    """Answer by `Run.chart`."""
    words = _words(run, request.sentence, limits)
    found = run.chart(words, _constraints(request.constraints), symbols=request.symbols)
    spans = [
        messages.SpanReply(
            start=span.start,
            end=span.end,
            probability=span.probability,
            symbols=[messages.SymbolShare(symbol=name, probability=share) for name, share in span.symbols],
        )
        for span in found.spans
    ]
    svg = span_chart(found.words, found.table()) if request.svg else None
    return messages.ChartReply(words=found.words, places=found.places, spans=spans, svg=svg)


def k_best(run: Run, request: messages.KBestRequest, limits: Limits) -> messages.TreesReply:
    """Answer by `Run.k_best`."""
    words = _words(run, request.sentence, limits)
    _at_most("k", request.k, limits.trees)
    _require_trees(run)
    (trees,) = run.k_best([words], request.k, [_constraints(request.constraints)])
    return _trees(trees, request.svg)


def sample_trees(run: Run, request: messages.SampleTreesRequest, limits: Limits) -> messages.TreesReply:
    """Answer by `Run.sample_trees`."""
    words = _words(run, request.sentence, limits)
    _at_most("samples", request.samples, limits.trees)
    _require_trees(run)
    asked = [_constraints(request.constraints)]
    (trees,) = run.sample_trees([words], request.samples, asked, seed=request.seed)
    return _trees(trees, request.svg)


def surprisal(run: Run, request: messages.SurprisalRequest, limits: Limits) -> messages.SurprisalReply:
    """Answer by `Run.surprisal`."""
    words = _words(run, request.sentence, limits)
    (records,) = run.surprisal([words])
    svg = None
    if request.svg:
        svg = surprisal_bars(
            [record.word for record in records],
            [record.surprisal for record in records],
            [record.entropy for record in records],
        )
    found = [
        messages.WordReply(
            word=record.word,
            token=record.token,
            surprisal=_finite(record.surprisal),
            entropy=_finite(record.entropy),
        )
        for record in records
    ]
    return messages.SurprisalReply(words=found, svg=svg)


def complete(run: Run, request: messages.CompleteRequest, limits: Limits) -> messages.CompleteReply:
    """Answer by `Run.complete`."""
    words = _words(run, request.prefix, limits, least=0)
    _at_most("k", request.k, limits.next_words)
    found = run.complete(words, request.k, max_length=limits.words)
    return messages.CompleteReply(
        tokens=found.tokens,
        unknown=found.unknown,
        log_probability=_finite(found.log_probability),
        words=[messages.NextWord(word=word, probability=share) for word, share in found.words],
        end=found.end,
        entropy=found.entropy,
    )


def describe_symbol(run: Run, request: messages.DescribeSymbolRequest, limits: Limits) -> messages.DescribeSymbolReply:
    """Answer by `Run.describe_symbol`."""
    found = run.describe_symbol(request.symbol)
    sides = {
        side: [messages.ChildReply(**child._asdict()) for child in children]
        for side, children in (("left", found.left), ("right", found.right))
    }
    words = [messages.NextWord(word=word, probability=share) for word, share in found.words]
    return messages.DescribeSymbolReply(symbol=found.symbol, words=words, **sides)


QUESTIONS = (
    Question("score", "Log-probability of a sentence.", messages.ScoreRequest, messages.ScoreReply, score),
    Question("parse", "The tree of a sentence.", messages.ParseRequest, messages.ParseReply, parse),
    Question("chart", "Span marginals of a sentence.", messages.ChartRequest, messages.ChartReply, chart),
    Question("k_best", "The most probable trees.", messages.KBestRequest, messages.TreesReply, k_best),
    Question(
        "sample_trees",
        "Random trees in proportion to their probability.",
        messages.SampleTreesRequest,
        messages.TreesReply,
        sample_trees,
    ),
    Question("surprisal", "Surprisal of each word.", messages.SurprisalRequest, messages.SurprisalReply, surprisal),
    Question("complete", "The likeliest next words.", messages.CompleteRequest, messages.CompleteReply, complete),
    Question(
        "describe_symbol",
        "A symbol's likeliest children and words.",
        messages.DescribeSymbolRequest,
        messages.DescribeSymbolReply,
        describe_symbol,
    ),
)


def questions_of(run: Run) -> list[str]:
    """Return the paths of the questions that a run can answer."""
    found = ["score"]
    if run.has_trees:
        found += ["parse", "chart", "k_best", "sample_trees"]
    if run.shares_rules:
        found += ["surprisal", "complete"]
    if run.shares_rules and run.has_trees:
        found.append("describe_symbol")
    return found


def _words(run: Run, sentence: str, limits: Limits, least: int = 1) -> list[str]:
    if len(sentence) > limits.characters:
        raise InputError(f"the sentence has {len(sentence)} characters; send at most {limits.characters}")
    words = run.preprocessing.split(sentence)
    if len(words) > limits.words:
        raise InputError(f"the sentence has {len(words)} words; send at most {limits.words}")
    if len(words) < least:
        raise InputError("the sentence is empty; send some words")
    return words


def _constraints(asked: messages.ConstraintsMessage | None) -> Mapping[str, Any] | None:
    return None if asked is None else asked.model_dump()


def _at_most(name: str, value: int, most: int) -> None:
    if value > most:
        raise InputError(f"{name} = {value}; ask for at most {most}")


def _require_trees(run: Run) -> None:
    if not run.has_trees:
        raise InputError(f"a model of kind {run.config.model.kind} has no trees; ask for score, surprisal or complete")


def _scores(run: Run, words: list[str], constraints: Mapping[str, Any] | None) -> dict[str, Any]:
    """Log-probability under the constraints, the share that they leave, and unknown words."""
    (log_probability,) = run.score([words], None if constraints is None else [constraints])
    share: float | None = 1.0
    if constraints is not None:
        (free,) = run.score([words])
        share = math.exp(log_probability - free) if math.isfinite(free) else None
    ((_, item),) = run.prepare([words])
    unknown = [
        words[place] for place, token in zip(item.kept, item.tokens, strict=False) if token not in run.vocabulary
    ]
    return {"log_probability": _finite(log_probability), "share": share, "unknown": unknown}


def _trees(trees: list[ScoredTree], svg: bool) -> messages.TreesReply:
    return messages.TreesReply(trees=[_tree(scored.tree, scored.log_probability, svg) for scored in trees])


def _tree(tree: SpanTree, log_probability: float | None, svg: bool) -> messages.TreeReply:
    return messages.TreeReply(
        words=list(tree.words),
        tags=list(tree.tags),
        spans=list(tree.spans),
        brackets=tree.to_brackets(),
        log_probability=_finite(log_probability),
        svg=tree_picture(tree) if svg else None,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
