"""`simplepcfg parse` with several runs; `evaluate` of runs together."""

import json
from pathlib import Path

import pytest

from command_calls import Call
from tiny_runs import make_tiny_run

SENTENCES = "The dog , sees a cat .\n\ndog\nthe old man sees a dog\n"


@pytest.fixture(scope="module")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other symbols, and other words in its vocabulary."""
    return make_tiny_run(tmp_path_factory.mktemp("other") / "run", "model.nonterminals=6", "data.min_count=3", "seed=2")


def test_refused_combinations(call: Call, tiny_run: Path, eos_run: Path, tmp_path: Path) -> None:
    for arguments, named in (
        (["right-branching", "--with", tiny_run], "no grammar"),
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
