"""What a report says of trees, where two runs disagree, and how a run learned."""

import re

import pytest

import simplepcfg
from simplepcfg.data.brackets import parse_tree
from simplepcfg.inference.run import Run
from simplepcfg.inference.run_summary import sample_parses
from simplepcfg.reports import Report, make_report
from simplepcfg.runs.history import TrainingHistory, read_history
from tiny_runs import make_tiny_run, short_trees


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    made = {"a": make_tiny_run(folder / "a", "training.epochs=3"), "b": make_tiny_run(folder / "b", "seed=3")}
    return {name: simplepcfg.load(path, "cpu") for name, path in made.items()}


@pytest.fixture(scope="module")
def report(runs: dict[str, Run]) -> Report:
    return make_report(runs, short_trees(40, seed=9))


def test_trees_beside_baselines_in_a_sentence(report: Report) -> None:
    page = report.to_html()
    assert len(re.findall(r"sentence F1 \d+\.\d on 40 trees, \d+\.\d (?:above|below) the best baseline", page)) == 2


def test_disagreement_counts_constituents(report: Report, runs: dict[str, Run]) -> None:
    (section,) = [section for section in report.sections if section.title == "Disagreement"]
    (table,) = [part for part in section.parts if "<table>" in part]
    numbers = [int(number.replace(",", "")) for number in re.findall(r'<td class="number">([\d,]+)</td>', table)]
    trees = short_trees(40, seed=9)
    parsed = [run.parse_spans(trees) for run in runs.values()]
    spans = [
        {(k, i, j) for k, tree in enumerate(found) for i, j, _ in tree.spans if 1 < j - i < len(tree)}
        for found in parsed
    ]
    assert sum(numbers[:2]) == pytest.approx(len(spans[0]), abs=40)  # the period of each sentence is dropped here
    assert numbers[0] > 0
    assert numbers[1] == numbers[2]  # binary trees over the same words


def test_a_run_keeps_its_sample_parse_of_each_epoch(runs: dict[str, Run], report: Report) -> None:
    history = read_history(runs["a"].directory)
    trees = [parse_tree(line["sample_parse"]) for line in history.epochs]
    assert len(trees) == 3
    assert len({tree.words for tree in trees}) == 1
    frames = sample_parses(history)
    assert [told.split(",")[0] for told, _ in frames] == ["epoch 1", "epoch 2", "epoch 3"]
    assert "<script" not in report.to_html()


def test_a_long_training_is_shown_at_some_moments() -> None:
    lines = [{"epoch": k, "step": k, "sample_parse": "(X (T a) (T b))"} for k in range(1, 101)]
    lines[50]["sample_parse"] = "(X (T a"
    frames = sample_parses(TrainingHistory(epochs=lines), most=10)
    assert len(frames) == 10
    assert [frames[0][0], frames[-1][0]] == ["epoch 1", "epoch 100"]
    assert sample_parses(TrainingHistory(epochs=[{"epoch": 1, "step": 1}])) == []
