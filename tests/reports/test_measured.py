"""What a report measures of a run, against the functions that measure it one by one."""

from pathlib import Path

import pytest

import simplepcfg
from simplepcfg.inference.run import Run
from simplepcfg.reports.measured import measure
from tiny_runs import make_tiny_run, short_trees


@pytest.fixture(scope="module", params=["plain", "eos"])
def run(request, tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Run:
    settings = ["data.eos=true"] if request.param == "eos" else ["data.separator_weight=3"]
    return simplepcfg.load(make_tiny_run(tmp_path_factory.mktemp("tiny") / "run", *settings), "cpu")


def test_measured_as_by_evaluate(run: Run) -> None:
    trees = short_trees(45, seed=9)
    found = measure({"run": run}, trees, "", lambda text: None)
    expected = run.evaluate(trees, labels=True)
    report = found.runs["run"].report
    assert report.sentence_f1 == expected.sentence_f1
    assert report.perplexity is not None
    assert expected.perplexity is not None
    assert report.perplexity.perplexity == pytest.approx(expected.perplexity.perplexity)
    assert expected.labels is not None
    assert found.runs["run"].labels == expected.labels.phrases


def test_a_quick_report_says_nothing(run: Run) -> None:
    told: list[str] = []
    measure({"run": run}, short_trees(12), "", told.append)
    assert told == []
    assert Path(run.directory or "").is_dir()
