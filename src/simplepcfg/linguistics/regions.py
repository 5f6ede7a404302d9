"""Regions of a sentence, such as the words a reader saw one by one: their tokens, and their summed surprisal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from simplepcfg.data.penn_words import plain_apostrophes
from simplepcfg.data.vocabulary import UNK
from simplepcfg.linguistics.word_model import (
    WordModel,
    WordSurprisal,
    entropy_reductions,
    with_known_marks,
    words_of_item,
)


@dataclass(frozen=True, slots=True)
class RegionSurprisal:
    """A region: the sum of its tokens' surprisals, in nats; None where the model looks at none of its tokens."""

    region: str
    tokens: tuple[str, ...]  # as the model sees them, without those that it does not look at
    surprisal: float | None
    entropy: float | None  # where it was asked for: of what could have stood in place of its first token
    unknown: int  # how many of the tokens are `<unk>`
    syntactic_surprisal: float | None = None  # summed as surprisal is; None for a model without preterminals
    lexical_surprisal: float | None = None
    entropy_reduction: float | None = None  # by how much the entropy falls until the next region, or 0

    @property
    def has_unknown(self) -> bool:
        """Whether its surprisal is, in part, that of "any unknown word"."""
        return self.unknown > 0


@dataclass(frozen=True, slots=True)
class TokenisedRegions:
    """The tokens of the sentence that regions make together, and for each token the region that it begins in."""

    words: list[str]
    region_of: list[int]


def tokenise_regions(regions: Sequence[str], model: WordModel | None = None) -> TokenisedRegions:
    """Tokenise the running sentence, regions joined by spaces, and find the region of each token.

    A region alone would be tokenised otherwise: a full stop is a token of its own at the end of a sentence only. With a
    `model`, brackets and quotation marks are as its vocabulary has them.
    """
    texts = [" ".join(region.split()) for region in regions]
    present = [index for index, text in enumerate(texts) if text]
    starts = list(accumulate((len(texts[index]) + 1 for index in present), initial=0))
    sentence = " ".join(texts[index] for index in present)
    words = words_of_item(sentence)
    plain = plain_apostrophes(sentence)  # character by character, so that places stay what they are
    region_of, place = [], 0
    for word in words:
        place = plain.index(word, place)  # tokens are pieces of the sentence, in its order
        region_of.append(present[bisect_right(starts, place) - 1])
        place += len(word)
    return TokenisedRegions(words if model is None else with_known_marks(model, words), region_of)


def region_surprisals(
    model: WordModel, sentences: Sequence[Sequence[str]], *, entropies: bool = False
) -> list[list[RegionSurprisal]]:
    """Compute the surprisal of each region of each sentence, which is given as the texts of its regions, in order.

    A last region of nothing but marks that the model does not look at, such as a full stop, has the surprisal of the
    end of the sentence: that is where the model decides what the full stop says. With `entropies` regions have an
    entropy and its reduction.
    """
    tokenised = [tokenise_regions(regions, model) for regions in sentences]
    ends = any(_last_region_is_dropped(model, item) for item in tokenised)
    words = [item.words for item in tokenised]
    tables = model.surprisal(words, ends=ends, entropies=entropies)
    return [
        _of_sentence(regions, item, table) for regions, item, table in zip(sentences, tokenised, tables, strict=True)
    ]


def _last_region_is_dropped(model: WordModel, item: TokenisedRegions) -> bool:
    """Tell whether the model drops all tokens of the last region, which then gets the surprisal of the end."""
    kept = model.preprocessing.apply(item.words).kept
    return bool(item.region_of) and all(item.region_of[place] != item.region_of[-1] for place in kept)


def _of_sentence(
    regions: Sequence[str], item: TokenisedRegions, table: Sequence[WordSurprisal]
) -> list[RegionSurprisal]:
    members: list[list[WordSurprisal]] = [[] for _ in regions]
    for index, record in zip(item.region_of, table, strict=False):
        if record.token is not None:
            members[index].append(record)
    last = item.region_of[-1] if item.region_of else 0
    if item.region_of and not members[last]:
        members[last] += table[len(item.words) :]  # the end, after an <eos> that was added
    entropies = [records[0].entropy if records else None for records in members]
    return [
        RegionSurprisal(
            region=region,
            tokens=tuple(record.token for record in records if record.token is not None),
            surprisal=_sum(record.surprisal for record in records),
            entropy=entropy,
            unknown=sum(record.token == UNK for record in records),
            syntactic_surprisal=_sum(record.syntactic_surprisal for record in records),
            lexical_surprisal=_sum(record.lexical_surprisal for record in records),
            entropy_reduction=reduction,
        )
        for region, records, entropy, reduction in zip(
            regions, members, entropies, entropy_reductions(entropies), strict=True
        )
    ]


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of those values that are there, or None if there are none."""
    present = [value for value in values if value is not None]
    return sum(present) if present else None
