"""Markdown and LaTeX of a table of results, whatever its names hold."""

import io
import re

import pytest

from simplepcfg.data.trees import SpanTree
from simplepcfg.evaluation.columns import Column
from simplepcfg.evaluation.f1 import evaluate_spans
from simplepcfg.evaluation.rendering import escape_markdown, markdown_report, rich_table
from simplepcfg.evaluation.report import EvaluationReport

GOLD = [SpanTree(("w",) * 3, ("T",) * 3, ((0, 3, "S"), (0, 2, "N_P$")))]


def column(name: str, *spans: list[tuple[int, int]]) -> Column:
    reports = tuple(EvaluationReport(name, 1, 3, evaluate_spans(GOLD, [guess])) for guess in spans)
    return Column(name, reports, grouped=len(reports) > 1)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("runs/a_b", r"runs/a\_b"),
        ("50 % & more", r"50 % \& more"),
        ("a|b", r"a\|b"),
        ("<unk>", r"\<unk\>"),
        ("\\x{$}#^~", r"\\x\{\$\}\#^\~"),
        ("two\nlines", "two lines"),
        ("65.1 ± 2.1", "65.1 ± 2.1"),
    ],
)
def test_escaping(text: str, markdown: str) -> None:
    assert escape_markdown(text) == markdown


def test_every_markdown_row_has_as_many_cells_as_the_header() -> None:
    text = markdown_report([column("a|b", [(0, 2)]), column("group", [(0, 2)], [(1, 3)])], "on x_y")
    title, _, *rows = text.splitlines()
    assert title == r"on x\_y"
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}
    assert r"| sentence F1 (S-F1) | 100.0 | 50.0 ± 70.7 |" in text
    assert r"| N\_P\$ (1) | 100.0 | 50.0 ± 70.7 |" in text


def test_a_narrow_terminal_cuts_neither_names_nor_numbers() -> None:
    from rich.console import Console

    names = ["left-branching", "right-branching", "english-of-last-week", "sn-pcfg-4096", "oracle"]
    console = Console(width=80, file=io.StringIO())
    console.print(rich_table([column(name, [(0, 2)]) for name in names], "()"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert text.count("100.0") >= 10
    head = text[: text.index("F1 (0-100)")]
    assert len(re.sub(r"[^\w-]", "", head)) == sum(map(len, names))  # folded, every character is there
