"""`simplepcfg show`: tables, JSON, and what it refuses."""

import json
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg.runs.config.files import load_config
from simplepcfg.training import train
from tiny_runs import SETTINGS


def test_tables(call: Call, tiny_run: Path, text_file: Path) -> None:
    result = call("show", tiny_run, text_file, "--top", 3)
    assert (result.code, result.err) == (0, "")
    assert result.lines[0] == "expected uses over 25 sentences"
    assert result.lines[1].startswith("nonterminals: ")
    assert "perplexity of use" in result.lines[2]
    assert result.out.count("NT-") >= 3
    assert "frequent spans" in result.out


def test_json(call: Call, tiny_run: Path, text_file: Path, tmp_path: Path) -> None:
    printed = call("show", tiny_run, text_file, "--top", 2, "--json", "-")
    report = json.loads(printed.out)
    assert [use["symbol"][:3] for use in report["nonterminals"]] == ["NT-", "NT-"]
    assert report["nonterminal_usage"]["symbols"] == 4
    assert report["sentences"] == 25
    use = report["nonterminals"][0]
    assert set(use["left"][0]) == set(use["right"][0]) == {"symbol", "probability", "word"}
    assert set(use["words"][0]) == {"word", "share"}
    assert set(use["examples"][0]) == {"words", "count"}
    assert " 0 %" not in call("show", tiny_run, text_file).out
    target = tmp_path / "symbols.json"
    both = call("show", tiny_run, text_file, "--top", 2, "--json", target)
    assert json.loads(target.read_text()) == report
    assert "nonterminals" in both.out


def test_long_spans_are_cut_in_the_table_alone(call: Call, tiny_run: Path) -> None:
    sentence = "the dog sees a cat " * 8
    result = call("show", tiny_run, "-", "--json", "-", stdin=sentence)
    spans = [example["words"] for use in json.loads(result.out)["nonterminals"] for example in use["examples"]]
    assert max(map(len, spans)) > 100
    table = call("show", tiny_run, "-", stdin=sentence).out
    assert "…" in table
    assert max(map(len, table.splitlines())) < 180


def test_the_text_of_a_raw_run_is_counted_by_sentences(call: Call, tmp_path: Path) -> None:
    text = tmp_path / "raw.txt"
    text.write_text("The dog sees a cat. The cat sees a dog. A dog sleeps in the house.\n\n" * 4)
    config = load_config(
        "sn-pcfg-small", [*SETTINGS, f"data.train={text}", "data.raw=true", "data.tokenize=true"], environment={}
    )
    train(config, tmp_path / "run")
    result = call("show", tmp_path / "run")
    assert result.err == f"uses are counted on {text} (its first 1,000 sentences at most)\n"
    assert result.lines[0] == "expected uses over 12 sentences"


def test_trees_and_standard_input(call: Call, tiny_run: Path, trees_file: Path) -> None:
    from_file = call("show", tiny_run, trees_file, "--json", "-")
    assert json.loads(from_file.out)["sentences"] == 25
    piped = call("show", tiny_run, "-", "--json", "-", stdin="the dog sees a cat\n")
    assert json.loads(piped.out)["sentences"] == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--top", "0"], "'--top': 0; give 1 or more"),
        (["--json", "no/such/folder.json"], "no folder"),
    ],
)
def test_bad_options(call: Call, tiny_run: Path, text_file: Path, arguments: list[str], named: str) -> None:
    result = call("show", tiny_run, text_file, *arguments)
    assert result.code == 2
    assert named in result.err
    assert len(result.err.splitlines()) == 1


def test_bad_input(call: Call, tiny_run: Path, text_file: Path) -> None:
    for arguments, named in (
        (["right-branching", text_file], "no symbols"),
        ([tiny_run, "no-such-file"], "no such file"),
        (["no-such-run"], "no-such-run"),
    ):
        result = call("show", *arguments)
        assert result.code == 2
        assert named in result.err
    result = call("show", tiny_run, "-", stdin="dog\n")
    assert result.code == 2
    assert "two words" in result.err
