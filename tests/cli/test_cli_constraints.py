"""`simplepcfg parse` with constraints and with several runs; `evaluate` of runs together."""

import json
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg.data.brackets import parse_tree
from tiny_runs import make_tiny_run

SENTENCES = "The dog , sees a cat .\n\ndog\nthe old man sees a dog\n"


@pytest.fixture(scope="module")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other symbols, and other words in its vocabulary."""
    return make_tiny_run(tmp_path_factory.mktemp("other") / "run", "model.nonterminals=6", "data.min_count=3", "seed=2")


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "known.jsonl"
    path.write_text('{"require": [[1, 5]], "forbid": [[3, 5]]}\n\n{}\n{"bonus": [[0, 2, 99], [3, 5, 99]]}\n')
    return path


def spans_of(line: str) -> set[tuple[int, ...]]:
    return {tuple(span) for span in json.loads(line)["spans"]}


@pytest.mark.parametrize("more", [[], ["--decode", "viterbi"], ["--with"]])
def test_constraints_hold(call: Call, tiny_run: Path, other_run: Path, asked: Path, more: list[str]) -> None:
    options = ["--constraints", asked, "--format", "json", *more, *([other_run] if more == ["--with"] else [])]
    result = call("parse", tiny_run, *options, stdin=SENTENCES)
    assert result.code == 0
    assert result.err == "" or result.err.startswith("not in the vocabulary, hence <unk>: ")
    assert len(result.lines) == 4
    first, last = spans_of(result.lines[0]), spans_of(result.lines[3])
    assert (1, 5) in first
    assert (3, 5) not in first
    assert {(0, 2), (3, 5)} <= last


def test_constraints_hold_in_every_one_of_the_k_best(call: Call, tiny_run: Path, asked: Path) -> None:
    options = ["--constraints", asked, "--decode", "viterbi", "--k", 3, "--format", "json"]
    result = call("parse", tiny_run, *options, stdin=SENTENCES)
    assert result.code == 0
    trees = [parse_tree(item["tree"]) for item in json.loads(result.lines[0])["trees"]]
    assert len(trees) == 3
    for tree in trees:
        spans = {(i, j) for i, j, _ in tree.spans}
        assert (1, 5) in spans
        assert (3, 5) not in spans


def test_empty_constraints_change_nothing(call: Call, tiny_run: Path, text_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    path.write_text("{}\n" * 25)
    assert call("parse", tiny_run, text_file, "--constraints", path).out == call("parse", tiny_run, text_file).out


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ('{"require": [[0, 3]}\n\n\n\n', ":1: not JSON"),
        ('\n\n\n{"require": [[0, 7]]}\n', ":4: span [0, 7] ends beyond the sentence, which has 6 words"),
        ('\n\n\n{"require": [[0, 3], [2, 5]]}\n', ":4: the required spans [0, 3] and [2, 5] cross"),
        ('\n\n\n{"forbid": [[0, 2], [1, 3], [2, 4], [3, 5], [4, 6]]}\n', ":4: the constraints leave no tree"),
        ('\n\n{"require": [[0, 2]]}\n\n', ":3: span [0, 2] ends beyond the sentence, which has 1 word"),
        ("\n\n\n", "3 lines for more sentences"),
        ("\n", "1 line for more sentences"),
        ("\n" * 5, "more lines than the 4 sentences"),
        ("", "0 lines for more sentences"),
    ],
)
def test_bad_constraints_are_one_line_and_print_nothing(
    call: Call, tiny_run: Path, tmp_path: Path, lines: str, named: str
) -> None:
    path = tmp_path / "known.jsonl"
    path.write_text(lines)
    result = call("parse", tiny_run, "--constraints", path, stdin=SENTENCES)
    assert result.code == 2
    assert named in result.err
    assert len(result.err.splitlines()) == 1
    assert result.out == ""


def test_numbers_go_on_across_chunks(call: Call, tiny_run: Path, asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = call("parse", tiny_run, "--constraints", asked, stdin=SENTENCES)
    monkeypatch.setattr("simplepcfg.cli.job.MOST_IN_A_CHUNK", 1)
    assert call("parse", tiny_run, "--constraints", asked, stdin=SENTENCES).out == whole.out


def test_refused_combinations(call: Call, tiny_run: Path, eos_run: Path, asked: Path, tmp_path: Path) -> None:
    for arguments, named in (
        ([tiny_run, "--constraints", "-"], "both standard input"),
        ([tiny_run, "--constraints", tmp_path / "none"], "no such file"),
        (["right-branching", "--constraints", asked], "no span marginals; leave out --constraints"),
        (["right-branching", "--with", tiny_run], "no span marginals; leave out --with"),
        ([tiny_run, "--with", "random"], "random trees have no span marginals"),
        ([tiny_run, "--with", tiny_run, "--decode", "viterbi"], "combines span marginals"),
        ([tiny_run, "--with", tmp_path / "none"], "none"),
        ([tiny_run, "--with", eos_run], "an ensemble needs runs whose preprocessing keeps the same words"),
    ):
        result = call("parse", *arguments, stdin=SENTENCES)
        assert result.code == 2, arguments
        assert named in result.err
        assert len(result.err.splitlines()) == 1


def test_a_run_with_itself_is_itself(call: Call, tiny_run: Path, text_file: Path) -> None:
    assert call("parse", tiny_run, text_file, "--with", tiny_run).out == call("parse", tiny_run, text_file).out


def test_evaluate_together(call: Call, tiny_run: Path, other_run: Path, trees_file: Path, text_file: Path) -> None:
    result = call("evaluate", tiny_run, other_run, "right-branching", trees_file, "--ensemble", "--json", "-")
    assert result.code == 0
    reports = json.loads(result.out)
    assert [report["name"] for report in reports][2:] == ["right-branching", "geometric mean of 2 runs"]
    assert reports[3]["sentence_f1"] is not None
    assert reports[3]["perplexity"] is None
    for arguments, named in (
        ([tiny_run, trees_file], "at least two"),
        ([tiny_run, other_run, text_file], "plain text"),
    ):
        refused = call("evaluate", *arguments, "--ensemble")
        assert refused.code == 2
        assert named in refused.err
