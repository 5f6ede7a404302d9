"""What a report measures of a run, against the functions that measure it one by one."""

from pathlib import Path

import pytest

import simplepcfg
from simplepcfg.data.trees import SpanTree
from simplepcfg.evaluation.calibration import calibration
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.inference.run import Run
from simplepcfg.progress import heard_by
from simplepcfg.reports import measured
from simplepcfg.reports.measured import measure
from tiny_runs import make_tiny_run, short_trees


def punctuated(tree: SpanTree) -> SpanTree:
    """The tree with a comma after its second word, within the sentence alone, and a period at its end."""
    shift = [place + (place > 2) for place in range(len(tree) + 1)]
    n = len(tree) + 2
    words = (*tree.words[:2], ",", *tree.words[2:], ".")
    tags = (*tree.tags[:2], ",", *tree.tags[2:], ".")
    spans = [(0, n, tree.spans[0][2])] + [
        (shift[i] + (i == 2), shift[j], label) for i, j, label in tree.spans[1:] if j - i < len(tree)
    ]
    return SpanTree(words, tags, tuple(spans))


@pytest.fixture(scope="module", params=["plain", "eos"])
def run(request, tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Run:
    settings = ["data.eos=true"] if request.param == "eos" else []
    return simplepcfg.load(make_tiny_run(tmp_path_factory.mktemp("tiny") / "run", *settings), "cpu")


def test_calibration_is_of_the_words_that_count(run: Run) -> None:
    """Punctuation, which the run drops, changes nothing."""
    trees = [tree for tree in short_trees(20) if len(tree) > 3]
    bare = [SpanTree(tree.words, tree.tags, tree.spans) for tree in Treebank(trees, run.preprocessing).gold]
    with_marks = [punctuated(tree) for tree in bare]
    assert [tree.words for tree in Treebank(with_marks, run.preprocessing).gold] == [tree.words for tree in bare]
    assert [tree.spans for tree in Treebank(with_marks, run.preprocessing).gold] == [tree.spans for tree in bare]
    first = measure({"run": run}, bare, "", lambda text: None).runs["run"].calibration
    second = measure({"run": run}, with_marks, "", lambda text: None).runs["run"].calibration
    assert second.error == pytest.approx(first.error, abs=1e-6)
    assert [item.share for item in second.bins] == pytest.approx([item.share for item in first.bins])
    assert first == calibration(bare, run.span_marginals(bare))


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


def test_nothing_is_computed_twice(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from simplepcfg.grammars import SimpleGrammar
    from simplepcfg.reports import make_report

    trees = short_trees(12)
    sentences = {"viterbi": 0, "span_marginals": 0}
    for name in sentences:
        original = getattr(SimpleGrammar, name)

        def counted(self, words, lengths=None, *, name=name, original=original, **rest):
            sentences[name] += len(words)
            return original(self, words, lengths, **rest)

        monkeypatch.setattr(SimpleGrammar, name, counted)
    make_report({"run": run}, trees)
    assert sentences["viterbi"] == len(trees)
    assert sentences["span_marginals"] <= len(trees) * (2 if run.preprocessing.eos else 1)


def test_how_far_it_is_is_told(run: Run) -> None:
    told: list[object] = []

    class Listener:
        def begin(self, what: str, total: float | None) -> None:
            told.extend([what, total])

        def advance(self, amount: float) -> None:
            told.append(amount)

        def end(self) -> None:
            told.append("end")

    trees = short_trees(measured.BLOCK + 2)
    with heard_by(Listener()):
        measure({"english": run}, trees, "", lambda text: None)
    what, total, first, rest, end, *_ = told
    assert (what, end) == (f"measuring english on {len(trees)} trees", "end")
    assert total == first + rest  # type: ignore[operator]


def test_a_quick_report_says_nothing(run: Run) -> None:
    told: list[str] = []
    measure({"run": run}, short_trees(12), "", told.append)
    assert told == []
    assert Path(run.directory or "").is_dir()
