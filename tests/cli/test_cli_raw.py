"""Raw text on the command line: paragraphs in, trees and numbers over the words as written out."""

import json
from pathlib import Path

import pytest
from nltk.tree import Tree

from command_calls import Call
from simplepcfg import load
from simplepcfg.cli.tree_output import render
from simplepcfg.data.trees import SpanTree
from tiny_runs import make_tiny_run

PARAGRAPHS = "The dog sees a cat. It doesn’t\nsleep, the man said!\n\nMr. Fox sleeps.\n"
WORDS = [
    ["The", "dog", "sees", "a", "cat", "."],
    ["It", "does", "n’t", "sleep", ",", "the", "man", "said", "!"],
    ["Mr.", "Fox", "sleeps", "."],
]


@pytest.fixture(scope="module")
def tokenizing_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences come as people write them."""
    return make_tiny_run(tmp_path_factory.mktemp("raw") / "run", "data.tokenize=true")


@pytest.mark.parametrize("decode", ["mbr", "viterbi"])
def test_parse_raw(call: Call, tiny_run: Path, decode: str) -> None:
    result = call("parse", tiny_run, "--raw", "--decode", decode, stdin=PARAGRAPHS)
    assert result.code == 0
    assert "--raw" not in result.err
    assert [Tree.fromstring(line).leaves() for line in result.lines] == WORDS


def test_evaluate_raw(call: Call, tiny_run: Path, tokenizing_run: Path, trees_file: Path, tmp_path: Path) -> None:
    text, lines = tmp_path / "text.txt", tmp_path / "lines.txt"
    text.write_text(PARAGRAPHS * 20)
    lines.write_text("".join(" ".join(words) + "\n" for words in WORDS) * 20)
    found, same = (
        json.loads(call("evaluate", tiny_run, *arguments, "--json", "-").out)[0]
        for arguments in ((text, "--raw"), (lines,))
    )
    assert found["sentences"] == same["sentences"] == 60
    assert found["perplexity"] == same["perplexity"]
    for run in (tiny_run, tokenizing_run):
        assert "--raw splits it into sentences and words\n" in call("evaluate", run, text).err
        assert "--raw splits" not in call("evaluate", run, text, "--raw").err
    assert "--raw" not in call("evaluate", tiny_run, lines).err
    refused = call("evaluate", tiny_run, trees_file, "--raw")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_score_raw(call: Call, tiny_run: Path) -> None:
    scores = [float(line) for line in call("score", tiny_run, "--raw", stdin=PARAGRAPHS).lines]
    assert scores == pytest.approx(load(tiny_run).score(WORDS), abs=1e-6)
    rows = call("score", tiny_run, "--raw", "--surprisal", stdin=PARAGRAPHS).lines[1:]
    assert [row.split("\t")[2] for row in rows if "<end>" not in row] == [word for words in WORDS for word in words]


def test_a_run_that_tokenises_needs_no_switch(call: Call, tokenizing_run: Path) -> None:
    lines = "The dog sees a cat.\n\nIt doesn’t sleep.\n"
    result = call("parse", tokenizing_run, stdin=lines)
    assert [Tree.fromstring(line).leaves() if line else [] for line in result.lines] == [
        WORDS[0],
        [],
        ["It", "does", "n’t", "sleep", "."],
    ]
    run = load(tokenizing_run)
    assert run.score(["The dog sees a cat."]) == run.score(["the dog sees a cat ."]) == run.score([WORDS[0]])
    assert run.parse(["The dog sees a cat."])[0].leaves() == WORDS[0]
    assert [record.word for record in run.surprisal(["A cat."])[0]][:3] == ["A", "cat", "."]
    assert run.complete("The dog,").words == run.complete("the dog").words


@pytest.mark.parametrize("command", ["parse", "score"])
def test_untokenised_text_gets_one_line_of_advice(call: Call, tiny_run: Path, command: str) -> None:
    result = call(command, tiny_run, stdin="The dog sees a cat.\nThe man sleeps.\n")
    assert sum("--raw splits it" in line for line in result.err.splitlines()) == 1
    assert "--raw" not in call(command, tiny_run, stdin="The dog sees a cat .\n").err
    assert "--raw" not in call(command, tiny_run, "-q", stdin="The dog sees a cat.\n").err


def test_train_raw(call: Call, tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text(PARAGRAPHS * 10)
    out = tmp_path / "run"
    small = ["model.nonterminals=2", "model.preterminals=3", "model.embedding=4", "training.epochs=1"]
    settings = [part for setting in small for part in ("--set", setting)]
    result = call("train", "sn-pcfg-small", "--train", tmp_path / "raw.txt", "--raw", "--out", out, *settings)
    assert result.code == 0, result.err
    run = load(out)
    assert run.preprocessing.tokenize
    assert run.config.data.raw
    assert {"mr.", "n't", "cat"} <= set(run.vocabulary.words)


def test_training_on_untokenised_text_says_so(call: Call, tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("The dog sees a cat.\nThe man sleeps, too.\n" * 10)
    small = ["model.nonterminals=2", "model.preterminals=3", "model.embedding=4", "training.epochs=1"]
    settings = [part for setting in small for part in ("--set", setting)]
    arguments = ("train", "sn-pcfg-small", "--train", tmp_path / "raw.txt", *settings)
    assert "looks untokenised, with punctuation that is part of words, as in `cat.`" in (
        call(*arguments, "--out", tmp_path / "plain").err
    )
    refused = call(*arguments, "--out", tmp_path / "bad", "--set", "data.raw=true")
    assert refused.code == 2
    assert "data.raw = true needs data.tokenize = true" in refused.err


def test_paragraphs_without_raw_get_a_remark(call: Call) -> None:
    said = "several sentences on a line, as in `slept. Then`; --raw splits it"
    text = "The dog slept. Then it woke.\n"
    assert said in call("parse", "english", stdin=text).err
    assert said not in call("parse", "english", "--raw", stdin=text).err
    assert call("parse", "english", "-q", stdin=text).err == ""


def test_input_without_sentences_is_told(call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    result = call("parse", "english", tmp_path / "empty.txt")
    assert (result.code, result.out) == (0, "")
    assert result.err == f"{tmp_path / 'empty.txt'}: no sentences\n"


def test_a_sentence_in_place_of_a_file(call: Call) -> None:
    result = call("parse", "english", "The dog's bone.")
    assert result.code == 2
    assert "no such file; check the path or, if it is a sentence, pipe it: echo " in result.err


def test_a_run_in_place_of_a_file(call: Call, tiny_run: Path) -> None:
    result = call("score", tiny_run, tiny_run)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(
        f"{tiny_run}: is a run, not text; give one run, then text (`parse` takes more with --with)\n"
    )


def test_columns() -> None:
    tree = SpanTree.from_spans(("a", "dog", "sleeps"), [(1, 3)])
    assert render(tree, "columns", False, {}, None) == "1\ta\tT\t(X*\n2\tdog\tT\t(X*\n3\tsleeps\tT\t*))\n"
    assert render(SpanTree.from_spans(("yes",), []), "columns", False, {}, None) == "1\tyes\tT\t(X*)\n"


def test_svg_is_one_picture(call: Call, tiny_run: Path) -> None:
    from xml.etree import ElementTree

    one = call("parse", tiny_run, "--format", "svg", stdin="a dog sleeps\n")
    two = call("parse", tiny_run, "--format", "svg", stdin="a dog sleeps\n\na <cat> & co\n")
    for result, trees in ((one, 1), (two, 2)):
        assert result.code == 0
        root = ElementTree.fromstring(result.out)
        assert root.tag.endswith("svg")
        assert len([node for node in root.iter() if node.tag.endswith("svg")]) == (1 if trees == 1 else 3)
    refused = call("parse", tiny_run, "--format", "svg", stdin="\n")
    assert (refused.code, refused.out) == (2, "")


def test_json_of_raw_text(call: Call, tiny_run: Path) -> None:
    lines = call("parse", tiny_run, "--raw", "--format", "json", stdin=PARAGRAPHS).lines
    assert [json.loads(line)["words"] for line in lines] == WORDS


def test_a_control_on_untokenised_text_names_an_option(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("The dog sees a cat.\nThe man sleeps, too.\n" * 10)
    arguments = (
        "baseline",
        "ngram",
        "--like",
        tiny_run,
        "--train",
        tmp_path / "raw.txt",
        "--out",
        tmp_path / "control",
    )
    result = call(*arguments)
    assert result.code == 0, result.err
    assert "as in `cat.`; --raw splits it into sentences and words\n" in result.err
    assert "--raw" not in call(*arguments, "--raw").err
