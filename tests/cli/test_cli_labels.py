"""Gold labels of symbols: `evaluate --labels`, `--write-labels`, `parse --labels` and `show` with trees."""

import json
from pathlib import Path

from command_calls import Call
from simplepcfg import load
from tiny_runs import make_tiny_run


def test_evaluate_reports_and_writes_labels(call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "labels.json"
    result = call("evaluate", tiny_run, trees_file, "--labels", "--write-labels", target)
    assert result.code == 0
    for shown in ("labelled S-F1", "V-measure", "preterminals: accuracy"):
        assert shown in result.out
    (report,) = json.loads(call("evaluate", tiny_run, trees_file, "--labels", "--json", "-").out)
    mapping = json.loads(target.read_text())
    assert mapping["phrases"] == report["labels"]["phrases"]["mapping"]
    assert mapping["tags"] == report["labels"]["tags"]["mapping"]
    assert 0 <= report["labels"]["labelled_corpus_f1"] <= 100
    (plain,) = json.loads(call("evaluate", tiny_run, trees_file, "--json", "-").out)
    assert plain["labels"] is None
    assert {**plain, "labels": report["labels"]} == report
    in_python = load(tiny_run).evaluate(trees_file, labels=True).labels
    assert in_python is not None
    assert in_python.to_dict() == report["labels"]


def test_parse_prints_mapped_labels(call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "labels.json"
    call("evaluate", tiny_run, trees_file, "--write-labels", target, "--quiet")
    mapping = json.loads(target.read_text())
    symbols = call("parse", tiny_run, trees_file, "--decode", "viterbi")
    named = call("parse", tiny_run, trees_file, "--labels", target)
    expected = symbols.out
    for symbol, label in sorted((mapping["phrases"] | mapping["tags"]).items(), key=lambda item: -len(item[0])):
        expected = expected.replace(f"({symbol} ", f"({label} ")
    assert named.out == expected
    assert named.out != symbols.out
    # Trees that have been named score as the report says.
    parsed = tmp_path / "named.trees"
    parsed.write_text(named.out)
    arguments = ["evaluate", trees_file, "--predictions", parsed, "--labels", "--json", "-"]
    (report,) = json.loads(call(*arguments).out)
    (own,) = json.loads(call("evaluate", tiny_run, trees_file, "--labels", "--json", "-").out)
    assert report["labels"]["phrases"]["accuracy"] <= own["labels"]["phrases"]["accuracy"] + 1e-9
    best = call("parse", tiny_run, trees_file, "--labels", target, "--k", 2).lines[0]
    assert best.partition("\t")[2] == named.lines[0]


def test_refusals(call: Call, tiny_run: Path, trees_file: Path, text_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "labels.json"
    for arguments, named in [
        (["evaluate", tiny_run, text_file, "--labels"], "needs gold trees"),
        (["evaluate", tiny_run, "random", trees_file, "--write-labels", target], "one run"),
        (["evaluate", "random", trees_file, "--write-labels", target], "one run"),
        (["parse", tiny_run, text_file, "--labels", trees_file], "no labels of symbols"),
        (["parse", "random", text_file, "--labels", target], "no probability"),
        (["parse", tiny_run, text_file, "--labels", tmp_path / "none.json"], "none.json"),
    ]:
        result = call(*arguments)
        assert (result.code, named in result.err, len(result.err.splitlines())) == (2, True, 1), result.err
    other = make_tiny_run(tmp_path / "other", "seed=3")
    call("evaluate", other, trees_file, "--write-labels", target, "--quiet")
    assert "another run" in call("parse", tiny_run, text_file, "--labels", target).err
    assert call("parse", other, text_file, "--labels", target).code == 0


def test_show_lists_gold_labels(call: Call, tiny_run: Path, trees_file: Path, text_file: Path) -> None:
    report = json.loads(call("show", tiny_run, trees_file, "--json", "-").out)
    (own,) = json.loads(call("evaluate", tiny_run, trees_file, "--labels", "--json", "-").out)
    mapping = own["labels"]["phrases"]["mapping"] | own["labels"]["tags"]["mapping"]
    for use in report["nonterminals"] + report["preterminals"]:
        assert (use["label"] or {"label": None})["label"] == mapping.get(use["symbol"])
    assert "gold label" in call("show", tiny_run, trees_file).out
    assert "gold label" not in call("show", tiny_run, text_file).out
