"""Surprisals as lists of records that a notebook shows as bars and pandas takes as a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, TypeVar

from simplepcfg.errors import InputError
from simplepcfg.linguistics.regions import RegionSurprisal
from simplepcfg.linguistics.word_model import ENTROPIES, INFORMATION, WordSurprisal

if TYPE_CHECKING:
    from pandas import DataFrame

Table = TypeVar("Table", bound=Sequence[WordSurprisal | RegionSurprisal])


class SurprisalTable(list[WordSurprisal]):
    """The records of one sentence, a word each: a list, which a notebook shows as bars."""

    def to_svg(self) -> str:
        """Draw the surprisals as bars, as an SVG file's text."""
        from simplepcfg.drawing import standalone, surprisal_bars

        columns = zip(*((record.word, record.surprisal, record.entropy) for record in self), strict=True)
        words, surprisals, entropies = columns if self else ((), (), ())
        return standalone(surprisal_bars(words, surprisals, entropies))

    _repr_svg_ = to_svg  # what notebooks show


class Tables(list[Table]):
    """The tables of several sentences."""

    record: type[WordSurprisal | RegionSurprisal]

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row a word or region: sentence and position count from 1, units are nats.

        Entropies are columns where any record has one.
        """
        try:
            import pandas
        except ImportError:
            raise InputError("pandas is not installed, which data frames are of; pip install pandas") from None
        rows = [
            {"sentence": number, "position": position, **asdict(record)}
            for number, table in enumerate(self, start=1)
            for position, record in enumerate(table, start=1)
        ]
        frame = pandas.DataFrame(rows, columns=["sentence", "position", *(each.name for each in fields(self.record))])
        if "tokens" in frame:
            frame["tokens"] = frame["tokens"].map(" ".join)
        if "entropy" in frame and frame["entropy"].isna().all():
            frame = frame.drop(columns=list(ENTROPIES))
        return frame.rename(columns={field: f"{field}_nats" for field in INFORMATION})


class SurprisalTables(Tables[SurprisalTable]):
    """The words of several sentences."""

    record = WordSurprisal
    # Of pruned surprisals, in nats: the estimate of how much too large that of each token, and of each end, is.
    errors: Sequence[float] = ()


class RegionTables(Tables[list[RegionSurprisal]]):
    """The regions of several sentences."""

    record = RegionSurprisal
