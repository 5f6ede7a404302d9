"""Gold labels of symbols: `evaluate --labels`, `--write-labels` and `show` with trees."""

import json
from pathlib import Path

from command_calls import Call
from simplepcfg import load


def test_evaluate_reports_and_writes_labels(call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "labels.json"
    result = call("evaluate", tiny_run, trees_file, "--labels", "--write-labels", target)
    assert result.code == 0
    for shown in ("labelled S-F1", "V-measure", "preterminals: accuracy"):
        assert shown in result.out
    (report,) = json.loads(call("evaluate", tiny_run, trees_file, "--labels", "--json", "-").out)
    mapping = json.loads(target.read_text())
    assert {*mapping["phrases"].values()} <= {label for row in mapping["phrase_shares"].values() for label in row}
    assert len(mapping["tags"]) == 8
    assert 0 <= report["labels"]["labelled_corpus_f1"] <= 100
    (plain,) = json.loads(call("evaluate", tiny_run, trees_file, "--json", "-").out)
    assert plain["labels"] is None
    assert {**plain, "labels": report["labels"]} == report
    in_python = load(tiny_run).evaluate(trees_file, labels=True).labels
    assert in_python is not None
    assert in_python.to_dict() == report["labels"]


def test_refusals(call: Call, tiny_run: Path, trees_file: Path, text_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "labels.json"
    for arguments, named in [
        (["evaluate", tiny_run, text_file, "--labels"], "needs gold trees"),
        (["evaluate", tiny_run, "random", trees_file, "--write-labels", target], "one run"),
        (["evaluate", "--predictions", trees_file, trees_file, "--write-labels", target], "one run"),
        (["evaluate", "random", trees_file, "--write-labels", target], "one run"),
        (["parse", tiny_run, text_file, "--labels", trees_file], "--labels"),
        (["evaluate", tiny_run, text_file, "--write-labels", target], text_file.name),
    ]:
        result = call(*arguments)
        assert (result.code, named in result.err, len(result.err.splitlines())) == (2, True, 1), result.err


def test_show_lists_gold_labels(call: Call, tiny_run: Path, trees_file: Path, text_file: Path) -> None:
    report = json.loads(call("show", tiny_run, trees_file, "--json", "-").out)
    (own,) = json.loads(call("evaluate", tiny_run, trees_file, "--labels", "--json", "-").out)
    mapping = own["labels"]["phrases"]["mapping"] | own["labels"]["tags"]["mapping"]
    for use in report["nonterminals"] + report["preterminals"]:
        assert (use["label"] or {"label": None})["label"] == mapping.get(use["symbol"])
    assert "gold label" in call("show", tiny_run, trees_file).out
    assert "gold label" not in call("show", tiny_run, text_file).out
