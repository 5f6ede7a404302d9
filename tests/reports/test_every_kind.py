"""Every kind of model can be reported on; what a kind does not have is left out with a remark."""

from pathlib import Path

import pytest

import simplepcfg
from simplepcfg.data.trees import SpanTree
from simplepcfg.reports import make_report

STORED = sorted((Path(__file__).parents[1] / "fixtures" / "runs").iterdir())


@pytest.mark.parametrize("folder", STORED, ids=lambda path: path.name)
def test_report_of_every_kind(folder: Path, one_thread: None) -> None:
    run = simplepcfg.load(folder, "cpu")
    words = tuple(word for word in run.vocabulary.words if word.isalpha())[:4]
    gold = SpanTree(words, ("NN",) * 4, ((0, 4, "S"), (0, 2, "NP"), (2, 4, "VP")))
    shorter = SpanTree(words[:2], ("NN",) * 2, ((0, 2, "S"),))
    remarks: list[str] = []
    report = make_report({"stored": run}, [gold, shorter, gold], remark=remarks.append)
    titles = [section.title for section in report.sections]
    assert {"Runs", "Scores", "Symbols in use"} <= set(titles)
    assert len(remarks) == (not run.has_trees)
    assert "</html>" in report.to_html()
