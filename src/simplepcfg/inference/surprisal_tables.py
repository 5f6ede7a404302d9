"""Surprisals as lists of records that a notebook shows as bars and pandas takes as a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from simplepcfg.errors import InputError
from simplepcfg.linguistics.regions import RegionSurprisal
from simplepcfg.linguistics.word_model import ENTROPIES, INFORMATION, WordSurprisal

if TYPE_CHECKING:
    from pandas import DataFrame


class SurprisalTable(list[WordSurprisal]):
    """The records of one sentence, a word each: a list, which a notebook shows as bars."""

    def to_svg(self) -> str:
        """Draw the surprisals as bars, as an SVG file's text."""
        from simplepcfg.drawing import standalone, surprisal_bars

        columns = zip(*((record.word, record.surprisal, record.entropy) for record in self), strict=True)
        words, surprisals, entropies = columns if self else ((), (), ())
        return standalone(surprisal_bars(words, surprisals, entropies))

    def _repr_svg_(self) -> str:
        """Draw the surprisals in notebooks."""
        return self.to_svg()


class SurprisalTables(list[SurprisalTable]):
    """The tables of several sentences."""

    # Of pruned ones: by about how many nats the surprisal of each token, and of each end, is too large.
    errors: Sequence[float] = ()

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row a word: sentence and position count from 1, units are nats."""
        names = _columns(self)
        return _frame(
            {
                "sentence": number,
                "position": position,
                "word": record.word,
                "token": record.token,
                **{name: getattr(record, field) for field, name in names.items()},
            }
            for number, table in enumerate(self, start=1)
            for position, record in enumerate(table, start=1)
        )


class RegionTables(list[list[RegionSurprisal]]):
    """The regions of several sentences."""

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row a region: sentence and position count from 1, units are nats."""
        names = _columns(self)
        return _frame(
            {
                "sentence": number,
                "position": position,
                "region": record.region,
                "tokens": " ".join(record.tokens),
                **{name: getattr(record, field) for field, name in names.items()},
                "unknown": record.unknown,
            }
            for number, table in enumerate(self, start=1)
            for position, record in enumerate(table, start=1)
        )


def _columns(tables: Sequence[Sequence[WordSurprisal | RegionSurprisal]]) -> dict[str, str]:
    """Return the fields of records that are columns and their names: entropies and depths where any record has one."""

    def has(field: str) -> bool:
        return any(getattr(record, field) is not None for table in tables for record in table)

    entropies = has("entropy")
    names = {field: f"{field}_nats" for field in INFORMATION if entropies or field not in ENTROPIES}
    return names | {"depth": "depth"} if has("depth") else names


def _frame(rows: Iterable[Mapping[str, object]]) -> DataFrame:
    try:
        import pandas
    except ImportError:
        raise InputError("pandas is not installed, which data frames are of; pip install pandas") from None
    return pandas.DataFrame(list(rows))
