"""The commands of docs/linguists.md, run one after another in an empty folder."""

import io
import re
import shlex
from pathlib import Path

import pandas
import pytest

from command_calls import Call

PAGE = Path(__file__).parent.parent.parent / "docs" / "linguists.md"
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END$", re.DOTALL | re.MULTILINE)
STORY = "The old man didn't see a dog. Why? “The dog barked,” said he. The cat and the dog sleep in the garden.\n\n" * 8


def test_every_command_runs(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("novel.txt").write_text(STORY)
    small = ["--set", "model.nonterminals=4", "--set", "model.preterminals=8", "--set", "model.embedding=8"]
    small += ["--set", "training.epochs=1", "--set", "training.threads=1", "--device", "cpu"]
    commands = []
    for block in SHELL.findall(PAGE.read_text(encoding="utf-8")):
        for name, text in FILE.findall(block):
            Path(name).write_text(text)
        commands += FILE.sub("", block).strip().splitlines()
    assert len(commands) == 7
    for line in commands:
        program, *words = shlex.split(line)
        assert program == "simplepcfg"
        target = words.pop() if words[-2] == ">" else None
        result = call(*[word for word in words if word != ">"], *(small if words[0] == "train" else []))
        assert result.code == 0, (line, result.err)
        if target is not None:
            Path(target).write_text(result.out)
    scored = pandas.read_csv("scored.tsv", sep="\t")
    assert len(scored) == 10
    assert {"item", "condition", "zone", "surprisal_bits_prev2", "unknown_prev2"} <= set(scored.columns)


def test_the_figures_of_the_page(call: Call, tmp_path: Path) -> None:
    """A comma costs or saves surprisal only where a grammar sees it."""
    page, items = PAGE.read_text(encoding="utf-8"), tmp_path / "items.tsv"
    items.write_text(dict(FILE.findall(page))["items.tsv"])
    grammar = PAGE.parents[1] / "packages" / "english-surprisal"
    scored = pandas.read_csv(io.StringIO(call("score", grammar, items, "--regions").out), sep="\t")
    ran = scored[scored["region"] == "ran"].set_index("condition")["surprisal_bits"]
    assert f"`ran` has\n{ran['ambiguous']:.1f} bits, and {ran['comma']:.1f} after the comma" in page
