"""Each question of the JSON interface, asked of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from anyio.from_thread import check_cancelled
from pydantic import BaseModel

from simplepcfg.data.trees import SpanTree
from simplepcfg.drawing import PLAIN_LABELS, span_chart, surprisal_bars, tree_picture
from simplepcfg.errors import InputError
from simplepcfg.files import Record
from simplepcfg.inference.derivations import ScoredTree
from simplepcfg.inference.run import Run
from simplepcfg.inference.surprisal_tables import SurprisalTable
from simplepcfg.serving import messages as m

WORD = ("word", "token", "surprisal", "syntactic_surprisal", "lexical_surprisal", "entropy")  # of a record
Answer = Record  # what is sent as JSON


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that a request may not exceed."""

    words: int = 80  # of a sentence
    characters: int = 4000  # of a sentence
    body_bytes: int = 1 << 16
    trees: int = 20  # k of k_best, samples of sample_trees
    next_words: int = 50
    waiting: int = 512  # requests of all clients at once


@dataclass(frozen=True, slots=True)
class Question:
    """A path below /api, the message that goes in, and the function that answers it, whose name is the path's."""

    summary: str
    request: type[BaseModel]
    answer: Callable[[Run, Any, Limits], Answer]

    @property
    def name(self) -> str:
        """Last part of the path, which is the name of the method of `Run`."""
        return self.answer.__name__


def score(run: Run, request: m.ScoreRequest, limits: Limits) -> Answer:
    """Answer by `Run.score`: tokens, unknown words, log-probability and the share that constraints leave of it."""
    asked = _asked(run, request, limits)
    return {**asked.described, **_scores(run, asked)}


def parse(run: Run, request: m.ParseRequest, limits: Limits) -> Answer:
    """Answer by `Run.parse`: the tree, beside what `score` answers."""
    asked = _asked(run, request, limits)
    _require_trees(run)
    (tree,) = run.parse_spans([asked.words], [asked.constraints], decode=request.decode)
    scores: Answer = {"log_probability": None, "share": None}
    if request.scores:
        check_cancelled()
        scores = _scores(run, asked)
    return {**asked.described, **scores, "tree": _tree(run, tree, None, request.svg)}


def chart(run: Run, request: m.ChartRequest, limits: Limits) -> Answer:
    """Answer by `Run.chart`: span marginals over the words that the run looks at, whose indices are `places`."""
    asked = _asked(run, request, limits)
    marginals = run.chart(asked.words, asked.constraints, symbols=request.symbols)
    spans = [
        {
            **asdict(span),
            "symbols": [
                {"symbol": symbol, "name": symbol_name(run, symbol), "probability": share}
                for symbol, share in span.symbols
            ],
        }
        for span in marginals.spans
    ]
    svg = span_chart(marginals.words, marginals.table(), places=marginals.places) if request.svg else None
    return {"words": marginals.words, "places": marginals.places, "spans": spans, "svg": svg}


def k_best(run: Run, request: m.KBestRequest, limits: Limits) -> Answer:
    """Answer by `Run.k_best`."""
    asked = _asked(run, request, limits)
    _at_most("k", request.k, limits.trees)
    _require_trees(run)
    (trees,) = run.k_best([asked.words], request.k, [asked.constraints])
    return _trees(run, trees, request.svg)


def bracketings(run: Run, request: m.BracketingsRequest, limits: Limits) -> Answer:
    """Answer by `Run.bracketings`: trees, their shares of the sentence's probability and of the random trees."""
    asked = _asked(run, request, limits)
    _at_most("k", request.k, limits.trees)
    _require_trees(run)
    best = run.bracketings(
        asked.words, request.k, asked.constraints, samples=request.samples, seed=request.seed, between=check_cancelled
    )
    shown = [
        {"probability": item.probability, "sampled": item.sampled, "tree": _tree(run, item.tree, None, request.svg)}
        for item in best
    ]
    return {"bracketings": shown}


def sample_trees(run: Run, request: m.SampleTreesRequest, limits: Limits) -> Answer:
    """Answer by `Run.sample_trees`."""
    asked = _asked(run, request, limits)
    _at_most("samples", request.samples, limits.trees)
    _require_trees(run)
    (trees,) = run.sample_trees([asked.words], request.samples, [asked.constraints], seed=request.seed)
    return _trees(run, trees, request.svg)


def surprisal(run: Run, request: m.SurprisalRequest, limits: Limits) -> Answer:
    """Answer by `Run.surprisal`: a record for each word and one for the end, in nats."""
    records = _surprisals(run, tuple(_words(run, request.sentence, limits)))
    svg = None
    if request.svg:
        columns = ([getattr(record, name) for record in records] for name in ("word", "surprisal", "entropy"))
        svg = surprisal_bars(*columns, most=request.most)
    return {"words": [{name: getattr(record, name) for name in WORD} for record in records], "svg": svg}


@lru_cache(maxsize=64)
def _surprisals(run: Run, words: tuple[str, ...]) -> SurprisalTable:
    """Return the records of a sentence, which is asked for again when its picture gets another axis."""
    return run.surprisal([list(words)], entropies=True)[0]


def complete(run: Run, request: m.CompleteRequest, limits: Limits) -> Answer:
    """Answer by `Run.complete`; `end` is the probability that no word follows."""
    words = _words(run, request.prefix, limits, least=0)
    _at_most("k", request.k, limits.next_words)
    completion = run.complete(words, request.k, max_length=limits.words)
    answer = {name: getattr(completion, name) for name in ("tokens", "unknown", "log_probability", "end", "entropy")}
    return {**answer, "words": _shares(completion.words)}


def describe_symbol(run: Run, request: m.DescribeSymbolRequest, limits: Limits) -> Answer:
    """Answer by `Run.describe_symbol`."""
    described = run.describe_symbol(request.symbol)
    sides = {
        side: [{"name": symbol_name(run, child.symbol), **child._asdict()} for child in children]
        for side, children in (("left", described.left), ("right", described.right))
    }
    name = symbol_name(run, described.symbol)
    return {"symbol": described.symbol, "name": name, "words": _shares(described.words), **sides}


QUESTIONS = (
    Question("Log-probability of a sentence.", m.ScoreRequest, score),
    Question("The tree of a sentence.", m.ParseRequest, parse),
    Question("Span marginals of a sentence.", m.ChartRequest, chart),
    Question("The most probable trees.", m.KBestRequest, k_best),
    Question("The most probable trees without symbols.", m.BracketingsRequest, bracketings),
    Question("Random trees in proportion to their probability.", m.SampleTreesRequest, sample_trees),
    Question("Surprisal of each word.", m.SurprisalRequest, surprisal),
    Question("The likeliest next words.", m.CompleteRequest, complete),
    Question("Likeliest children and words of a symbol.", m.DescribeSymbolRequest, describe_symbol),
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


class _Asked(NamedTuple):
    """A sentence as the run splits it, and what is known of its tree, over these words."""

    words: list[str]
    constraints: Record | None
    described: Answer  # each word with its characters, whether the run looks at it and knows it; unknown words


def _asked(run: Run, request: Any, limits: Limits) -> _Asked:
    words = _words(run, request.sentence, limits)
    prepared = run.prepare_words(words)
    normalised = dict(zip(prepared.kept, prepared.tokens, strict=False))
    tokens, place = list[Answer](), 0
    for index, word in enumerate(words):
        start = request.sentence.index(word, place)
        place = start + len(word)
        known = index not in normalised or normalised[index] in run.vocabulary
        tokens.append({"text": word, "start": start, "end": place, "used": index in normalised, "known": known})
    described = {"tokens": tokens, "unknown": [token["text"] for token in tokens if not token["known"]]}
    return _Asked(words, _constraints(request.constraints, tokens), described)


def _constraints(asked: m.ConstraintsMessage | None, tokens: list[Answer]) -> Record | None:
    if asked is None:
        return None
    spans = asked.model_dump(exclude={"unit"})
    if asked.unit == "words":
        return spans
    starts = {token["start"]: index for index, token in enumerate(tokens)}
    ends = {token["end"]: index + 1 for index, token in enumerate(tokens)}
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


def _scores(run: Run, asked: _Asked) -> Answer:
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


def _shares(words: list[tuple[str, float]]) -> list[Answer]:
    return [{"word": word, "probability": share} for word, share in words]


def _trees(run: Run, trees: list[ScoredTree], svg: bool) -> Answer:
    return {"trees": [_tree(run, scored.tree, scored.log_probability, svg) for scored in trees]}


def _tree(run: Run, tree: SpanTree, log_probability: float | None, svg: bool) -> Answer:
    """Return a tree; spans are [start, end, label], parents first, and `names` are readable ones of its symbols."""
    symbols = {*tree.tags, *(label for _, _, label in tree.spans)} - PLAIN_LABELS
    names = {symbol: symbol_name(run, symbol) for symbol in symbols}
    return {
        **asdict(tree),
        "brackets": tree.to_brackets(),
        "names": names,
        "log_probability": log_probability,
        "svg": tree_picture(tree, names=names) if svg else None,
    }


def symbol_name(run: Run, symbol: str) -> str:
    """Return what a symbol such as NT-12 is called where people read it; the symbol itself where nothing is known."""
    label = None if run.labels is None else run.labels.phrases.get(symbol) or run.labels.tags.get(symbol)
    return label or (run.symbol_name(symbol) if run.shares_rules else symbol)
