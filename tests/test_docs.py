"""The documentation holds: its code runs, links lead somewhere, commands exist, what is generated is current."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import typer

from configuration_page import config_reference
from simplepcfg.cli.main import EVERY, app_of
from simplepcfg.runs.config.files import builtin_configs

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")])
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def python_blocks(page: Path) -> list[str]:
    return [code for language, code in FENCED.findall(page.read_text(encoding="utf-8")) if language == "python"]


def load_renderer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render", ROOT / "benchmarks" / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def options_of(command: Any) -> Iterator[str]:
    """Of a command, or of all below it."""
    for parameter in command.params:
        yield from parameter.opts
    for inner in getattr(command, "commands", {}).values():
        yield from options_of(inner)


COMMANDS: dict[str, Any] = typer.main.get_command(app_of(EVERY)).commands  # type: ignore[attr-defined]
CODE = [(page, number) for page in PAGES for number in range(len(python_blocks(page)))]


def test_the_readme_has_code() -> None:
    assert (README, 0) in CODE


@pytest.mark.parametrize(("page", "number"), CODE, ids=lambda value: getattr(value, "name", str(value)))
def test_python_blocks_run(page: Path, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        exec(compile(python_blocks(page)[number], str(page), "exec"), {"__name__": "__main__"})
    finally:
        torch.set_num_threads(threads)


def test_files_that_contributors_are_sent_to_exist() -> None:
    """Paths in backquotes, from the top, within the package or within tests; the guide's example is yet to be made."""
    named = re.findall(
        r"`([\w./-]+/[\w.-]+\.(?:py|toml|md|csv))`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    checked = [name for name in named if "NAME" not in name and "free_pcfg" not in name]
    assert len(checked) > 20
    places = (ROOT, ROOT / "src" / "simplepcfg", ROOT / "tests")
    assert [name for name in checked if not any((place / name).exists() for place in places)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{page.name}: {target} leads nowhere"
        if anchor:
            assert anchor in anchors(found), f"{page.name}: {target} names no heading"


@pytest.mark.parametrize("page", [README, *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"\bsimplepcfg ([a-z]+)\b", _code(text))) <= set(COMMANDS)
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([\w-]+)", _code(text))) <= targets
    calls = "\n".join(re.findall(r"simplepcfg [a-z]+ .*", _code(text)))
    options = set(re.findall(r"(?<![\w-])(--[a-z]+(?:-[a-z]+)*)", calls))
    assert options <= {"--help", *(option for command in COMMANDS.values() for option in options_of(command))}


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def test_every_command_and_configuration_is_named() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"`simplepcfg {name}" in text
    for name in builtin_configs():
        assert f"| `{name}` |" in text


def test_configuration_page_is_current() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == config_reference(), "run: python benchmarks/render.py"


@pytest.mark.parametrize("page", [README, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name)
def test_measured_tables_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert load_renderer().render(text) == text, "run: python benchmarks/render.py"


def test_tables_come_from_results(tmp_path: Path) -> None:
    render = load_renderer()
    page = "before\n<!-- begin: laptop-families -->\nold\n<!-- end: laptop-families -->\nafter\n"
    assert "Not measured yet: run `python benchmarks/laptop_families.py OLDER`." in render.render(page, tmp_path)
    (tmp_path / "questions_gpu.csv").write_text(
        "question,B,n,N,P,ms_p50,ratio,peak_mb,machine\ninside,1,2,3,6,1,1,1,box\n"
    )
    other = "<!-- begin: questions-gpu -->\n<!-- end: questions-gpu -->\n"
    nothing = "Not measured yet: run `python benchmarks/questions_gpu.py`."
    assert nothing in render.render(other, tmp_path)  # none to keep
    header = "family,question,sentences_a_second,ratio,machine,threads,commit"
    rows = ["HMM,parse,6.0,2,box,1,a", "HMM,parse,1234.56,3,box,1,b"]
    (tmp_path / "laptop_families.csv").write_text("\n".join([header, *rows]) + "\n")
    text = render.render(page, tmp_path)
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| HMM | parse | 1,235 | 3 |" in text  # the last row of a setting
    assert text.count("| HMM |") == 1
    assert "box; 1 CPU threads; commit b" in text
    assert render.render(text, tmp_path) == text
    with pytest.raises(KeyError):
        render.render(page.replace("laptop-families", "no-such-table"), tmp_path)


def test_rows_that_are_folded(tmp_path: Path) -> None:
    """The seeds of a setting are one row; those of another commit are another."""
    render = load_renderer()
    (tmp_path / "runs.csv").write_text("name,seed,f1,commit\na,0,9.5,c\na,1,7.5,c\na,0,3.5,d\n")
    join = ", ".join
    columns = {"name": "name", "seed": "seeds", "f1": "S-F1"}
    table = render.Table("runs.csv", "a command", columns, ("name", "seed", "commit"), fold={"seed": join, "f1": join})
    text = render.block(table, tmp_path)
    assert "| a | 0, 1 | 9.5, 7.5 |" in text
    assert "| a | 0 | 3.500 |" in text


def test_a_mean_needs_all_its_values(tmp_path: Path) -> None:
    header = "trees,system,seed,nonterminals,epochs,training_text,sentence_f1,interval,corpus_f1,perplexity"
    rows = [
        "T test,sn-pcfg,0,8,1,T,60,,50,9.5",
        "T test,sn-pcfg,1,8,1,T,62,,,",
        "T test,tn-pcfg-biased,0,8,1,T,61.25,,,8",
    ]
    end = ",right_branching,machine,commit"
    (tmp_path / "trees.csv").write_text("\n".join([header + end, *(row + ",40,box,c" for row in rows)]) + "\n")
    text = load_renderer().render("<!-- begin: trees -->\n<!-- end: trees -->", tmp_path)
    assert "| T test | sn-pcfg | 0, 1 | 61.0 ± 1.4 | – | 40 |" in text  # no mean of one perplexity of two
    assert "| T test | tn-pcfg-biased | 0 | 61.25 | 8 | 40 |" in text


def _code(text: str) -> str:
    """Everything on a page that is set as code, a line each."""
    fenced = [code for _, code in FENCED.findall(text)]
    rest = FENCED.sub("", text)
    indented = re.findall(r"^    (.*)$", rest, re.MULTILINE)
    return "\n".join([*fenced, *indented, *re.findall(r"`([^`\n]+)`", rest)])
