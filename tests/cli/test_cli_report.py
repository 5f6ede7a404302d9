"""`simplepcfg report`: one file that needs nothing else, refusals in one line."""

import re
import shutil
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from command_calls import Call

SECTIONS = ["Runs", "Learning curves", "Scores", "Symbols and gold labels", "Best and worst parses", "Disagreement"]
SECTIONS += ["Symbols in use"]


class Balanced(HTMLParser):
    """Counts elements that are opened and not closed."""

    VOID = frozenset({"meta", "br", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def read(path: Path) -> tuple[str, list[str]]:
    html = path.read_text()
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return html, parser.headings


def test_report_with_trees(call: Call, tiny_run: Path, eos_run: Path, trees_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    found = call("report", tiny_run, eos_run, trees_file, "--out", out)
    assert (found.code, found.out) == (0, "")
    html, headings = read(out)
    assert headings == SECTIONS
    assert "right-branching" in html
    assert "run-2" in html  # both folders are called run
    addresses = set(re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')> ]+)""", html))
    assert all(address.startswith("#") for address in addresses)
    assert "<script" not in html
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(pictures) > 10
    for picture in pictures:
        assert ET.fromstring(picture).tag.endswith("svg")
    assert "F1 by length" in html
    assert "recall by label" in html


def test_report_without_trees(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    assert call("report", tiny_run, "--out", tmp_path / "report.html").code == 0
    _, headings = read(tmp_path / "report.html")
    assert headings == ["Runs", "Learning curves", "Symbols in use"]


def test_report_of_a_bare_model(call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path) -> None:
    """A run that was saved has no record of its training."""
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.toml", "vocabulary.txt", "model.safetensors"):
        shutil.copy(tiny_run / name, bare / name)
    found = call("report", bare, trees_file, "--out", tmp_path / "r.html", "--limit", "5")
    assert found.code == 0
    assert "5 of 25 trees, chosen at random (--seed 0)" in found.err
    assert "chosen at random (seed 0)" in (tmp_path / "r.html").read_text()
    assert "record of its training" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "no such run folder"),
        (["right-branching"], "no record to report"),
        (["{run}", "{text}"], "holds no bracketed trees"),
        (["{run}", "--out", "-"], "is no file"),
        (["{run}", "--out", "no/such/folder.html"], "there is no folder"),
    ],
)
def test_refusals(call: Call, tiny_run: Path, text_file: Path, arguments: list[str], words: str) -> None:
    found = call("report", *(item.format(run=tiny_run, text=text_file) for item in arguments))
    assert found.code == 2
    assert words in found.err
    assert found.err.count("\n") == 1
