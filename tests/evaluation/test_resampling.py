"""Bootstrap intervals and significance on constructed cases, and the columns that show them."""

import math
import random
import statistics
from dataclasses import replace

import pytest

from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.columns import Column, Spread, vocabulary_remark, with_comparisons
from simplepcfg.evaluation.f1 import evaluate_spans
from simplepcfg.evaluation.perplexity import perplexity
from simplepcfg.evaluation.report import EvaluationReport, VocabularyUse
from simplepcfg.evaluation.resampling import compare, intervals

GOLD = [SpanTree(("w",) * 4, ("T",) * 4, ((0, 4, "S"), (0, 2, "X"))) for _ in range(60)]


def report_of(right: list[bool], scores: list[float] | None = None, gold: list[SpanTree] = GOLD) -> EvaluationReport:
    spans = [[(0, 2)] if hit else [(1, 3)] for hit in right]
    likelihood = perplexity(scores, [4] * len(scores), eos=False) if scores else None
    return EvaluationReport("x", len(gold), 4 * len(gold), evaluate_spans(gold, spans), likelihood)


def draws(share: float, seed: int) -> list[bool]:
    rng = random.Random(seed)
    return [rng.random() < share for _ in GOLD]


def test_intervals_are_the_same_for_the_same_seed() -> None:
    report = report_of(draws(0.5, 1), [-10.0 - k for k in range(60)])
    first, again, other = (intervals([report], resamples=200, seed=seed) for seed in (3, 3, 4))
    assert first == again != other
    assert set(first) == {"sentence_f1", "corpus_f1", "perplexity"}
    assert report.perplexity is not None
    for name, value in (("sentence_f1", report.sentence_f1), ("perplexity", report.perplexity.perplexity)):
        assert value is not None
        assert first[name].low < value < first[name].high


def test_interval_is_that_of_the_normal_law() -> None:
    right = draws(0.5, 2)
    found = intervals([report_of(right)], resamples=4000)["sentence_f1"]
    share = sum(right) / len(right)
    half = 100 * 1.96 * math.sqrt(share * (1 - share) / len(right))
    assert found.low == pytest.approx(100 * share - half, abs=2.5)
    assert found.high == pytest.approx(100 * share + half, abs=2.5)


def test_no_spread_no_interval() -> None:
    found = intervals([report_of([True] * 60)], resamples=50)
    assert (found["corpus_f1"].low, found["corpus_f1"].high) == (100, 100)


def test_a_large_difference_is_significant_and_none_is_not() -> None:
    good, bad = report_of([True] * 60, [-8.0] * 60), report_of([False] * 60, [-12.0] * 60)
    found = compare([good], [bad], resamples=999)
    assert found["sentence_f1"].difference == 100
    assert {name: item.p_value for name, item in found.items()} == dict.fromkeys(found, 1 / 1000)
    assert len(found) == 3
    assert all(item.p_value == 1 for item in compare([good], [good], resamples=99).values())
    assert compare([bad], [good], resamples=99)["perplexity"].difference > 0


def test_p_values_of_equal_systems_are_spread_out() -> None:
    found = [
        compare([report_of(draws(0.5, seed))], [report_of(draws(0.5, 1000 + seed))], resamples=99)[
            "sentence_f1"
        ].p_value
        for seed in range(60)
    ]
    assert 0.35 < statistics.fmean(found) < 0.75
    assert sum(p < 0.1 for p in found) <= 14  # 6 expected


def test_p_is_exact_on_a_case_that_can_be_counted() -> None:
    # Three sentences, each better by the same: 2 of the 8 swaps are as large in size.
    gold = GOLD[:3]
    good, bad = report_of([True] * 3, gold=gold), report_of([False] * 3, gold=gold)
    assert compare([good], [bad], resamples=4000)["sentence_f1"].p_value == pytest.approx(0.25, abs=0.03)


def test_systems_on_other_text_are_not_compared() -> None:
    shorter = report_of([True] * 59, gold=GOLD[:59])
    assert compare([report_of([True] * 60)], [shorter], resamples=9) == {}
    impossible = report_of([True] * 60, [-math.inf] + [-8.0] * 59)
    assert "perplexity" not in compare([impossible], [impossible], resamples=9)
    assert "perplexity" not in intervals([impossible], resamples=9)


def test_a_group_is_compared_by_its_mean() -> None:
    runs = [report_of(draws(0.6, seed)) for seed in range(3)]
    other = report_of(draws(0.3, 9))
    found = compare(runs, [other], resamples=99)["sentence_f1"]
    mean = statistics.fmean(run.sentence_f1 or 0 for run in runs)
    assert other.sentence_f1 is not None
    assert found.difference == pytest.approx(mean - other.sentence_f1)


def test_spread() -> None:
    assert Spread.of([60.0, 64.0, 62.0]) == Spread(62.0, 2.0)
    assert Spread.of([60.0, None]) == Spread(60.0, None)
    assert Spread.of([None]) is None
    assert Spread.of([1.0, math.inf]) == Spread(math.inf, None)
    assert Spread(62.0, 2.04).format() == "62.0 ± 2.0"
    assert Spread(1234.5, None).format(2) == "1,234.50"


def test_comparisons_name_their_baseline() -> None:
    columns = [Column("a", (report_of(draws(0.7, 1)),)), Column("b", (report_of(draws(0.4, 2)),))]
    first, second = with_comparisons(columns, "a", resamples=9)
    assert (first.compared_with, second.compared_with) == (None, "a")
    with pytest.raises(InputError, match="comparison with c: no column has this name; take one of a, b"):
        with_comparisons(columns, "c")
    with pytest.raises(InputError, match="resamples = 0; give a whole number, 1 or more"):
        intervals(columns[0].reports, resamples=0)
    with pytest.raises(InputError, match="nothing beside it"):
        with_comparisons(columns[:1], "a")


def test_perplexities_over_other_words_are_not_compared() -> None:
    def over(words: str, level: float) -> EvaluationReport:
        return replace(report_of([True] * 60, [level] * 60), vocabulary=VocabularyUse(9, words, 240, 12))

    assert "perplexity" in compare([over("a", -8.0)], [over("a", -9.0)], resamples=20)
    assert set(compare([over("a", -8.0)], [over("b", -9.0)], resamples=20)) == {"sentence_f1", "corpus_f1"}
    mixed = [over("a", -8.0), over("b", -9.0)]
    assert "perplexity" not in compare(mixed, mixed, resamples=20)
    columns = [Column("one", (over("a", -8.0),)), Column("other", (over("b", -9.0),))]
    remark = vocabulary_remark(columns)
    assert remark is not None
    assert "not comparable" in remark
    assert vocabulary_remark(columns[:1]) is None
    (first, _) = with_comparisons(columns, "other", resamples=20)
    assert "not comparable" in first.to_dict()["comparison"]["remark"]
    assert "perplexity" not in first.to_dict()["comparison"]
    assert first.to_dict()["unknown_share"] == 0.05
