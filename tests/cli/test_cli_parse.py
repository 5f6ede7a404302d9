"""`simplepcfg parse`: formats, order, awkward sentences."""

import gzip
import io
import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from nltk.tree import Tree

from command_calls import Call
from simplepcfg import load
from simplepcfg.cli import parse
from simplepcfg.cli.output import write_lines
from simplepcfg.cli.sentence_stream import SentenceStream
from simplepcfg.grammars import simple
from simplepcfg.inference import batches as batched
from simplepcfg.progress import heard_by
from tiny_runs import tiny_sentences

AWKWARD = "The dog , sees a cat .\n\ndog\n. ,\n( the man ) sleeps\n"


def test_brackets_keep_words_order_and_lines(call: Call, tiny_run: Path) -> None:
    result = call("parse", tiny_run, stdin=AWKWARD)
    assert result.code == 0
    assert result.err == "" or result.err.startswith("not in the vocabulary, hence <unk>: ")
    assert len(result.lines) == 5
    assert Tree.fromstring(result.lines[0]).leaves() == ["The", "dog", ",", "sees", "a", "cat", "."]
    assert result.lines[1:4] == ["", "(X (T dog))", "(X (T .) (T ,))"]
    assert Tree.fromstring(result.lines[4]).leaves() == ["-LRB-", "the", "man", "-RRB-", "sleeps"]


def test_dropped_punctuation_hangs_from_the_lowest_node_around_it(call: Call, tiny_run: Path) -> None:
    tree = Tree.fromstring(call("parse", tiny_run, stdin="' the dog , sees a cat .").lines[0])
    assert [tree[0].leaves(), tree[-1].leaves()] == [["'"], ["."]]
    around = min(
        (node for node in tree.subtrees() if "," in node.leaves() and node.height() > 2),
        key=lambda node: len(node.leaves()),
    )
    assert any(child.leaves() == [","] for child in around)
    assert len(around) == 3


def test_leaving_symbols_out_keeps_the_trees(call: Call, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(tiny_sentences(20, seed=4))
    exact = call("parse", tiny_run, "--decode", "exact-mbr", stdin=text).lines
    monkeypatch.setattr(simple, "LEAST_NONTERMINALS", 1)
    assert call("parse", tiny_run, stdin=text).lines == exact
    monkeypatch.setattr(simple, "pruned_span_marginals", None)  # which nothing asks for now
    assert call("parse", tiny_run, "--decode", "exact-mbr", stdin=text).lines == exact


def test_order_is_kept_whatever_the_lengths(call: Call, tiny_run: Path) -> None:
    sentences = tiny_sentences(40, seed=3)
    random.Random(0).shuffle(sentences)
    together = call("parse", tiny_run, stdin="\n".join(sentences)).lines
    assert [Tree.fromstring(line).leaves() for line in together] == [line.split() for line in sentences]
    alone = [call("parse", tiny_run, stdin=sentence).lines[0] for sentence in sentences[:5]]
    assert together[:5] == alone


def test_json(call: Call, tiny_run: Path) -> None:
    lines = call("parse", tiny_run, "--format", "json", stdin=AWKWARD).lines
    records = [json.loads(line) for line in lines]
    assert [record["words"] for record in records][:3] == [["The", "dog", ",", "sees", "a", "cat", "."], [], ["dog"]]
    assert records[0]["spans"][0] == [0, 7]
    assert Tree.fromstring(records[0]["tree"]).leaves() == records[0]["words"]


def test_pretty_shows_every_word_once(call: Call, tiny_run: Path) -> None:
    result = call("parse", tiny_run, "--format", "pretty", stdin="the dog sees a cat\n")
    words = [line.split("─ ")[-1] for line in result.lines if line]
    assert [word for word in words if word != "X"] == ["the", "dog", "sees", "a", "cat"]


def test_long_lines_are_neither_folded_nor_coloured(call: Call, tiny_run: Path) -> None:
    sentence = " ".join(["[bold]dog[/bold]", ":smile:"] * 60)
    for style in ("brackets", "json"):
        result = call("parse", tiny_run, "--format", style, stdin=sentence)
        assert len(result.lines) == 1
        assert "\x1b" not in result.out
        assert result.out.count("[bold]dog[/bold]") >= 60


def test_files_plain_and_compressed(call: Call, tiny_run: Path, text_file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(text_file.read_bytes()))
    plain = call("parse", tiny_run, text_file)
    assert plain.code == 0
    assert (
        plain.out
        == call("parse", tiny_run, packed).out
        == call("parse", tiny_run, "-", stdin=text_file.read_bytes()).out
    )


def test_trees_are_parsed_by_their_words(call: Call, tiny_run: Path, trees_file: Path) -> None:
    result = call("parse", tiny_run, trees_file)
    gold = [Tree.fromstring(line).leaves() for line in trees_file.read_text().splitlines()]
    assert [Tree.fromstring(line).leaves() for line in result.lines] == gold


def test_eos_is_seen_by_the_grammar_and_not_shown(call: Call, eos_run: Path) -> None:
    result = call("parse", eos_run, stdin="the dog sees a cat .\ndog\n\n")
    assert "<eos>" not in result.out
    assert Tree.fromstring(result.lines[0]).leaves() == ["the", "dog", "sees", "a", "cat", "."]
    assert all(len(node) == 2 for node in Tree.fromstring(result.lines[0]).subtrees() if node.height() > 2)
    assert result.lines[1:] == ["(X (T dog))", ""]


@pytest.mark.parametrize("name", ["right-branching", "oracle"])
def test_baselines_are_for_evaluate(call: Call, tiny_run: Path, name: str) -> None:
    for runs in ([name], [tiny_run, "--with", name]):
        result = call("parse", *runs, stdin="a b c")
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert f"{name} trees have no grammar, and are for evaluate" in result.err


class Interrupted:
    """Writes two blocks, and is interrupted by the third."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []

    def __call__(self, lines: Iterable[str]) -> None:
        if len(self.written) == 2:
            raise KeyboardInterrupt
        self.written.append(list(lines))
        write_lines(self.written[-1])


@pytest.mark.parametrize(
    "options", [[], ["--decode", "viterbi"], ["--decode", "viterbi", "--k", "2"], ["--with", "SELF"]]
)
def test_trees_are_printed_as_they_are_found(
    call: Call, tiny_run: Path, text_file: Path, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, a block at a time, of which an interruption loses none."""
    options = [str(tiny_run) if item == "SELF" else item for item in options]
    whole = call("parse", tiny_run, text_file, *options).out
    monkeypatch.setattr(batched, "BLOCK_WORK", {"cpu": 1.0})
    monkeypatch.setattr(batched, "LEAST_IN_A_BLOCK", 3)
    assert call("parse", tiny_run, text_file, *options).out == whole
    writer = Interrupted()
    monkeypatch.setattr("simplepcfg.cli.sentence_stream.write_lines", writer)
    result = call("parse", tiny_run, text_file, *options)
    assert result.code == 130
    assert [len(lines) for lines in writer.written] == [3, 3]
    assert whole.startswith(result.out)
    assert result.out


@pytest.mark.parametrize(("name", "meant"), [("right-branch", "right-branching"), ("randm", "random")])
def test_a_misspelt_baseline(call: Call, text_file: Path, name: str, meant: str) -> None:
    result = call("evaluate", name, text_file)
    assert result.code == 2
    assert f"did you mean {meant}?" in result.err


@pytest.mark.parametrize("quiet", [False, True])
def test_at_a_keyboard_the_remark_can_be_silenced(
    quiet: bool, tiny_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Keyboard(io.BytesIO):
        def isatty(self) -> bool:
            return True

    def begin(*_: object) -> None:
        raise AssertionError("a line that is drawn again erases what is being typed")

    listener = SimpleNamespace(begin=begin)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Keyboard(b"the dog\ncat\n")))
    run, asked = load(tiny_run), parse.ParseRequest(run="tiny", quiet=quiet)
    with heard_by(listener), SentenceStream(asked, "parsing", run) as stream:
        assert list(stream.chunks()) == [[["the", "dog"]], [["cat"]]]
    assert capsys.readouterr().err == ("" if quiet else "type one sentence a line; Ctrl-D ends\n")


def test_what_was_not_computed_has_no_log_probability(call: Call, tiny_run: Path) -> None:
    result = call("parse", tiny_run, "--decode", "viterbi", "--k", 1, "--max-words", 2, stdin="the dog sees a cat\n")
    assert result.out.startswith("NA\t(X ")  # as of score; -inf is what has a probability of 0


def test_blocks_grow_with_the_work_that_they_are(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By counting, not by the clock: the same sentences make the same blocks, so that a repeated run gives the same."""
    run = load(tiny_run)
    each = 10**2 * 4 * (4 + batched.OVERHEAD)
    monkeypatch.setattr(batched, "BLOCK_WORK", {"cpu": 5.0 * each})
    monkeypatch.setattr(batched, "LEAST_IN_A_BLOCK", 2)
    monkeypatch.setattr(batched, "MOST_TIMES_THE_FIRST", 4)
    parts = list(batched.blocks(run, [10] * 60))
    assert [part.stop - part.start for part in parts] == [5, 10, 20, 20, 5]
    assert [index for part in parts for index in range(60)[part]] == list(range(60))
    assert [part.stop for part in batched.blocks(run, [1000, 1, 1, 1])] == [2, 4]
    assert list(batched.blocks(run, [])) == []
