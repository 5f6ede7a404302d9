"""Questions as JSON: the names are those of the Python interface, `Run`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Span = Annotated[list[int], Field(min_length=2, max_length=2)]


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


class ScoreRequest(_Request):
    """A sentence, split at white space, and what is known of its tree."""

    sentence: str
    constraints: ConstraintsMessage | None = None


class SentenceRequest(ScoreRequest):
    """A sentence and what is wanted of it."""

    svg: bool = Field(False, description="Whether pictures are wanted.")


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


class BracketingsRequest(SampleTreesRequest):
    """A sentence, and how many of its most probable bracketings are wanted among those of random trees."""

    k: int = Field(5, ge=1)
    samples: int = Field(200, ge=1, le=1000)


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
