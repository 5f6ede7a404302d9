"""Each question of the JSON interface, asked of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from anyio.from_thread import check_cancelled
from pydantic import BaseModel

from simplepcfg.data.trees import SpanTree
from simplepcfg.drawing import PLAIN_LABELS, span_chart, surprisal_bars, tree_picture
from simplepcfg.errors import InputError
from simplepcfg.files import Record
from simplepcfg.inference.labelled_trees import ScoredTree
from simplepcfg.inference.run import Run
from simplepcfg.inference.surprisal_tables import SurprisalTable
from simplepcfg.serving import messages as m
from simplepcfg.serving.limits import Limits


@dataclass(frozen=True, slots=True)
class Question:
    """A path below /api, the messages that go in and out, and the function between them, whose name is the path's."""

    summary: str
    request: type[BaseModel]
    reply: type[BaseModel]
    answer: Callable[[Run, Any, Limits], BaseModel]

    @property
    def name(self) -> str:
        """Last part of the path, which is the name of the method of `Run`."""
        return self.answer.__name__


def score(run: Run, request: m.ScoreRequest, limits: Limits) -> m.ScoreReply:
    """Answer by `Run.score`."""
    asked = _asked(run, request, limits)
    return m.ScoreReply(tokens=asked.tokens, unknown=asked.unknown, **_scores(run, asked))


def parse(run: Run, request: m.ParseRequest, limits: Limits) -> m.ParseReply:
    """Answer by `Run.parse`."""
    asked = _asked(run, request, limits)
    _require_trees(run)
    (tree,) = run.parse_spans([asked.words], [asked.constraints], decode=request.decode)
    scores: dict[str, float | None] = {"log_probability": None, "share": None}
    if request.scores:
        check_cancelled()
        scores = _scores(run, asked)
    return m.ParseReply(tokens=asked.tokens, unknown=asked.unknown, tree=_tree(run, tree, None, request.svg), **scores)


def chart(run: Run, request: m.ChartRequest, limits: Limits) -> m.ChartReply:
    """Answer by `Run.chart`."""
    asked = _asked(run, request, limits)
    marginals = run.chart(asked.words, asked.constraints, symbols=request.symbols)
    spans = [
        m.SpanReply(
            start=span.start,
            end=span.end,
            probability=span.probability,
            symbols=[
                m.SymbolShare(symbol=symbol, name=symbol_name(run, symbol), probability=share)
                for symbol, share in span.symbols
            ],
        )
        for span in marginals.spans
    ]
    svg = span_chart(marginals.words, marginals.table(), places=marginals.places) if request.svg else None
    return m.ChartReply(words=marginals.words, places=marginals.places, spans=spans, svg=svg)


def k_best(run: Run, request: m.KBestRequest, limits: Limits) -> m.TreesReply:
    """Answer by `Run.k_best`."""
    asked = _asked(run, request, limits)
    _at_most("k", request.k, limits.trees)
    _require_trees(run)
    (trees,) = run.k_best([asked.words], request.k, [asked.constraints])
    return _trees(run, trees, request.svg)


def bracketings(run: Run, request: m.BracketingsRequest, limits: Limits) -> m.BracketingsReply:
    """Answer by `Run.bracketings`."""
    asked = _asked(run, request, limits)
    _at_most("k", request.k, limits.trees)
    _require_trees(run)
    best = run.bracketings(
        asked.words, request.k, asked.constraints, samples=request.samples, seed=request.seed, between=check_cancelled
    )
    return m.BracketingsReply(
        bracketings=[
            m.BracketingReply(
                probability=item.probability, sampled=item.sampled, tree=_tree(run, item.tree, None, request.svg)
            )
            for item in best
        ]
    )


def sample_trees(run: Run, request: m.SampleTreesRequest, limits: Limits) -> m.TreesReply:
    """Answer by `Run.sample_trees`."""
    asked = _asked(run, request, limits)
    _at_most("samples", request.samples, limits.trees)
    _require_trees(run)
    (trees,) = run.sample_trees([asked.words], request.samples, [asked.constraints], seed=request.seed)
    return _trees(run, trees, request.svg)


def surprisal(run: Run, request: m.SurprisalRequest, limits: Limits) -> m.SurprisalReply:
    """Answer by `Run.surprisal`."""
    records = _surprisals(run, tuple(_words(run, request.sentence, limits)))
    svg = None
    if request.svg:
        svg = surprisal_bars(
            [record.word for record in records],
            [record.surprisal for record in records],
            [record.entropy for record in records],
            most=request.most,
        )
    return m.SurprisalReply(words=[m.WordReply.model_validate(record) for record in records], svg=svg)


@lru_cache(maxsize=64)
def _surprisals(run: Run, words: tuple[str, ...]) -> SurprisalTable:
    """Return the records of a sentence, which is asked for again when its picture gets another axis."""
    return run.surprisal([list(words)], entropies=True)[0]


def complete(run: Run, request: m.CompleteRequest, limits: Limits) -> m.CompleteReply:
    """Answer by `Run.complete`."""
    words = _words(run, request.prefix, limits, least=0)
    _at_most("k", request.k, limits.next_words)
    completion = run.complete(words, request.k, max_length=limits.words)
    return m.CompleteReply(
        tokens=completion.tokens,
        unknown=completion.unknown,
        log_probability=completion.log_probability,
        words=[m.NextWord(word=word, probability=share) for word, share in completion.words],
        end=completion.end,
        entropy=completion.entropy,
    )


def describe_symbol(run: Run, request: m.DescribeSymbolRequest, limits: Limits) -> m.DescribeSymbolReply:
    """Answer by `Run.describe_symbol`."""
    described = run.describe_symbol(request.symbol)
    sides = {
        side: [m.ChildReply(name=symbol_name(run, child.symbol), **child._asdict()) for child in children]
        for side, children in (("left", described.left), ("right", described.right))
    }
    words = [m.NextWord(word=word, probability=share) for word, share in described.words]
    name = symbol_name(run, described.symbol)
    return m.DescribeSymbolReply(symbol=described.symbol, name=name, words=words, **sides)


QUESTIONS = (
    Question("Log-probability of a sentence.", m.ScoreRequest, m.ScoreReply, score),
    Question("The tree of a sentence.", m.ParseRequest, m.ParseReply, parse),
    Question("Span marginals of a sentence.", m.ChartRequest, m.ChartReply, chart),
    Question("The most probable trees.", m.KBestRequest, m.TreesReply, k_best),
    Question("The most probable trees without symbols.", m.BracketingsRequest, m.BracketingsReply, bracketings),
    Question("Random trees in proportion to their probability.", m.SampleTreesRequest, m.TreesReply, sample_trees),
    Question("Surprisal of each word.", m.SurprisalRequest, m.SurprisalReply, surprisal),
    Question("The likeliest next words.", m.CompleteRequest, m.CompleteReply, complete),
    Question(
        "Likeliest children and words of a symbol.", m.DescribeSymbolRequest, m.DescribeSymbolReply, describe_symbol
    ),
)


def questions_of(run: Run) -> list[str]:
    """Return the paths of the questions that a run can answer."""
    questions = ["score"]
    if run.has_trees:
        questions += ["parse", "chart", "k_best", "sample_trees"]
    if run.shares_rules:
        questions += ["surprisal", "complete"]
    if run.shares_rules and run.has_trees:
        questions += ["bracketings", "describe_symbol"]
    return questions


def _words(run: Run, sentence: str, limits: Limits, least: int = 1) -> list[str]:
    if len(sentence) > limits.characters:
        raise InputError(f"the sentence has {len(sentence)} characters; send at most {limits.characters}")
    words = run.preprocessing.split(sentence)
    if len(words) > limits.words:
        raise InputError(f"the sentence has {len(words)} words; send at most {limits.words}")
    if len(words) < least:
        raise InputError("the sentence is empty; send some words")
    return words


@dataclass(frozen=True, slots=True)
class _Asked:
    """A sentence as the run splits it, and what is known of its tree, over these words."""

    words: list[str]
    tokens: list[m.TokenReply]
    constraints: Record | None

    @property
    def unknown(self) -> list[str]:
        return [token.text for token in self.tokens if not token.known]


def _asked(run: Run, request: Any, limits: Limits) -> _Asked:
    words = _words(run, request.sentence, limits)
    prepared = run.preprocessing.apply(words)
    normalised = dict(zip(prepared.kept, prepared.tokens, strict=False))
    tokens, place = [], 0
    for index, word in enumerate(words):
        start = request.sentence.index(word, place)
        place = start + len(word)
        known = index not in normalised or normalised[index] in run.vocabulary
        tokens.append(m.TokenReply(text=word, start=start, end=place, used=index in normalised, known=known))
    return _Asked(words, tokens, _constraints(request.constraints, tokens))


def _constraints(asked: m.ConstraintsMessage | None, tokens: list[m.TokenReply]) -> Record | None:
    if asked is None:
        return None
    spans = asked.model_dump(exclude={"unit"})
    if asked.unit == "words":
        return spans
    starts = {token.start: index for index, token in enumerate(tokens)}
    ends = {token.end: index + 1 for index, token in enumerate(tokens)}
    for kind, listed in spans.items():
        for position, (start, end, *bonus) in enumerate(listed):
            if start not in starts or end not in ends:
                raise InputError(f"{kind} [{start}, {end}]: no word begins or ends there; take offsets of tokens")
            listed[position] = [starts[start], ends[end], *bonus]
    return spans


def _at_most(name: str, value: int, most: int) -> None:
    if value > most:
        raise InputError(f"{name} = {value}; ask for at most {most}")


def _require_trees(run: Run) -> None:
    if not run.has_trees:
        raise InputError(f"a model of kind {run.config.model.kind} has no trees; ask for score, surprisal or complete")


def _scores(run: Run, asked: _Asked) -> dict[str, float | None]:
    """Return the log-probability under the constraints, and the share that they leave."""
    free = _log_probability(run, tuple(asked.words))
    if asked.constraints is None:
        return {"log_probability": free, "share": 1.0}
    (log_probability,) = run.score([asked.words], [asked.constraints])
    share = math.exp(log_probability - free) if math.isfinite(free) else None
    return {"log_probability": log_probability, "share": share}


@lru_cache(maxsize=64)
def _log_probability(run: Run, words: tuple[str, ...]) -> float:
    """Return the log-probability of a sentence, with which that under each of several constraints is compared."""
    return run.score([list(words)])[0]


def _trees(run: Run, trees: list[ScoredTree], svg: bool) -> m.TreesReply:
    return m.TreesReply(trees=[_tree(run, scored.tree, scored.log_probability, svg) for scored in trees])


def _tree(run: Run, tree: SpanTree, log_probability: float | None, svg: bool) -> m.TreeReply:
    symbols = {*tree.tags, *(label for _, _, label in tree.spans)} - PLAIN_LABELS
    names = {symbol: symbol_name(run, symbol) for symbol in symbols}
    return m.TreeReply(
        words=list(tree.words),
        tags=list(tree.tags),
        spans=list(tree.spans),
        brackets=tree.to_brackets(),
        names=names,
        log_probability=log_probability,
        svg=tree_picture(tree, names=names) if svg else None,
    )


def symbol_name(run: Run, symbol: str) -> str:
    """Return what a symbol such as NT-12 is called where people read it; the symbol itself where nothing is known."""
    label = None if run.labels is None else run.labels.phrases.get(symbol) or run.labels.tags.get(symbol)
    return label or (run.symbol_name(symbol) if run.shares_rules else symbol)
