"""Questions and answers as JSON: the names are those of the Python interface, `Run`."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Span = Annotated[list[int], Field(min_length=2, max_length=2)]
Finite = Annotated[
    float | None, BeforeValidator(lambda value: value if value is not None and math.isfinite(value) else None)
]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Request(_Message):
    run: str | None = Field(None, max_length=200, description="The name of a run; the first one if left out.")


class ConstraintsMessage(_Message):
    """Spans [start, end] over the sentence's words, punctuation counted; a bonus is in nats.

    With the unit "characters" start and end are offsets in the sentence, as those of `tokens`.
    """

    unit: Literal["words", "characters"] = "words"
    require: list[Span] = Field(default_factory=list, max_length=200)
    forbid: list[Span] = Field(default_factory=list, max_length=200)
    bonus: list[Annotated[list[Any], Field(min_length=3, max_length=3)]] = Field(default_factory=list, max_length=200)


class SentenceRequest(_Request):
    """A sentence, split at white space, and what is known of its tree."""

    sentence: str
    constraints: ConstraintsMessage | None = None
    svg: bool = Field(False, description="Whether pictures are wanted.")


class ScoreRequest(_Request):
    """A sentence to score."""

    sentence: str
    constraints: ConstraintsMessage | None = None


class ParseRequest(SentenceRequest):
    """A sentence to parse."""

    decode: Literal["mbr", "viterbi"] = "mbr"
    scores: bool = Field(True, description="Whether the log-probability and the share are wanted, which take time.")


class ChartRequest(SentenceRequest):
    """A sentence whose span marginals are wanted."""

    symbols: int = Field(0, ge=0, le=10, description="How many symbols of each span to give.")


class KBestRequest(SentenceRequest):
    """A sentence and how many of its most probable trees are wanted."""

    k: int = Field(5, ge=1)


class SampleTreesRequest(SentenceRequest):
    """A sentence and how many random trees of it are wanted."""

    samples: int = Field(5, ge=1)
    seed: int = Field(0, ge=0, lt=2**63)


class BracketingsRequest(SentenceRequest):
    """A sentence, and how many of its most probable bracketings are wanted among those of random trees."""

    k: int = Field(5, ge=1)
    samples: int = Field(200, ge=1, le=1000)
    seed: int = Field(0, ge=0, lt=2**63)


class SurprisalRequest(_Request):
    """A sentence whose words' surprisals are wanted."""

    sentence: str
    svg: bool = Field(False, description="Whether a picture is wanted.")
    most: float | None = Field(None, gt=0, le=1e6, description="Up to where the picture's axis goes at least, in nats.")


class CompleteRequest(_Request):
    """The beginning of a sentence."""

    prefix: str
    k: int = Field(10, ge=1)


class DescribeSymbolRequest(_Request):
    """A symbol such as NT-12 or T-5."""

    symbol: str = Field(max_length=20)


class MomentReply(_Message):
    """The sample parse at one moment of training: when that was, and a picture."""

    told: str
    svg: str


class RunReply(_Message):
    """A run that can be asked, and what it can be asked."""

    name: str
    kind: str
    nonterminals: int | None
    preterminals: int | None
    vocabulary: int
    questions: list[str]
    facts: dict[str, str]
    training: list[MomentReply] = Field(description="The parse of one sentence at moments of its training.")
    examples: list[str] = Field(description="Sentences whose words it knows.")


class RunsReply(_Message):
    """All runs that were given at the start, and the limits of a request."""

    runs: list[RunReply]
    max_words: int
    max_trees: int


class TreeReply(_Message):
    """A tree; spans are [start, end, label], parents first. The log-probability is that of words and tree, in nats."""

    words: list[str]
    tags: list[str]
    spans: list[tuple[int, int, str]]
    brackets: str
    names: dict[str, str] = Field(description="Readable names of its symbols: gold labels or typical words.")
    log_probability: Finite = None
    svg: str | None = None


class TokenReply(_Message):
    """A word as the run splits the sentence, and where it stands there; spans of trees and constraints count these."""

    text: str
    start: int = Field(description="Of its first character, counted in Unicode code points.")
    end: int
    used: bool = Field(description="False where the run drops it, such as punctuation.")
    known: bool = Field(description="False where the vocabulary does not have it, so that the run reads <unk>.")


class ScoreReply(_Message):
    """Natural log-probability of the sentence; null where it is impossible or was not asked for.

    `share` is the probability, given the sentence, of the trees that the constraints allow (with bonuses, the ratio of
    weights).
    """

    tokens: list[TokenReply]
    log_probability: Finite
    share: float | None
    unknown: list[str] = Field(description="Words that the vocabulary does not have.")


class ParseReply(ScoreReply):
    """The tree of a sentence."""

    tree: TreeReply


class SymbolShare(_Message):
    """A symbol, its readable name, and its marginal over a span."""

    symbol: str
    name: str
    probability: float


class SpanReply(_Message):
    """A span over `words` of the chart, its marginal and its likeliest symbols."""

    start: int
    end: int
    probability: float
    symbols: list[SymbolShare]


class ChartReply(_Message):
    """Span marginals over the words that the run looks at; `places` are these words' indices in the sentence."""

    words: list[str]
    places: list[int]
    spans: list[SpanReply]
    svg: str | None = None


class BracketingReply(_Message):
    """A tree without symbols: its share of the sentence's probability, summed over symbols, and of the random trees."""

    probability: float
    sampled: float
    tree: TreeReply


class BracketingsReply(_Message):
    """The most probable bracketings among those of random trees, best first."""

    bracketings: list[BracketingReply]


class TreesReply(_Message):
    """Trees with their log-probabilities."""

    trees: list[TreeReply]


class WordReply(_Message):
    """A word's surprisal, its two parts and the entropy before it, in nats; null where the run drops the word."""

    model_config = ConfigDict(from_attributes=True)

    word: str
    token: str | None
    surprisal: Finite
    syntactic_surprisal: Finite
    lexical_surprisal: Finite
    entropy: Finite


class SurprisalReply(_Message):
    """A record for each word and one for the end."""

    words: list[WordReply]
    svg: str | None = None


class NextWord(_Message):
    """A word and its probability."""

    word: str
    probability: float


class CompleteReply(_Message):
    """What may follow; `end` is the probability that no word does."""

    tokens: list[str]
    unknown: list[str]
    log_probability: Finite
    words: list[NextWord]
    end: float
    entropy: float


class ChildReply(_Message):
    """A likely child; of a preterminal with its likeliest word."""

    symbol: str
    name: str
    probability: float
    word: str | None


class DescribeSymbolReply(_Message):
    """A symbol's likeliest children on either side and its words."""

    symbol: str
    name: str
    left: list[ChildReply]
    right: list[ChildReply]
    words: list[NextWord]


class ErrorReply(_Message):
    """What is wrong with a request, in one line."""

    error: str
