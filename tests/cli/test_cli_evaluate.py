"""`simplepcfg evaluate`: runs, baselines, predictions, on trees and on text."""

import json
import math
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg import load

REQUIRED = {
    "sentences",
    "tokens",
    "sentence_f1",
    "corpus_f1",
    "log_likelihood_nats",
    "perplexity",
    "perplexity_tokens",
}


def test_trees_give_f1_and_perplexity(call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    result = call("evaluate", tiny_run, trees_file, "--json", target)
    assert result.code == 0
    (report,) = json.loads(target.read_text())
    assert report.keys() >= REQUIRED
    assert report["sentences"] == trees_file.read_text().count("\n")
    assert report["perplexity_tokens"] == report["tokens"] + report["sentences"]
    assert 0 <= report["corpus_f1"] <= 100
    assert 0 <= report["sentence_f1"] <= 100
    assert report["perplexity"] == pytest.approx(math.exp(-report["log_likelihood_nats"] / report["perplexity_tokens"]))
    for shown in ("S-F1", "corpus F1", "recall by label", "perplexity", "length + 1"):
        assert shown in result.out


def test_viterbi_trees_are_those_that_parse_prints(
    call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path
) -> None:
    parsed = tmp_path / "parsed.trees"
    parsed.write_text(call("parse", tiny_run, trees_file, "--decode", "viterbi").out)
    arguments = ["evaluate", tiny_run, trees_file, "--decode", "viterbi", "--predictions", parsed, "--json", "-"]
    own, printed = json.loads(call(*arguments).out)
    assert own["sentence_f1"] == pytest.approx(printed["sentence_f1"])
    assert own["sentence_f1"] == load(tiny_run).evaluate(trees_file, decode="viterbi").sentence_f1
    assert own["perplexity"] == load(tiny_run).evaluate(trees_file).to_dict()["perplexity"]
    refused = call("evaluate", tiny_run, trees_file, "--decode", "viterbi", "--ensemble")
    assert refused.code == 2
    assert "leave out --decode viterbi" in refused.err
    with pytest.raises(ValueError, match="decode = 'best'"):
        load(tiny_run).evaluate(trees_file, decode="best")


def test_text_gives_perplexity_alone(call: Call, tiny_run: Path, text_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    assert call("evaluate", tiny_run, text_file, "--json", target).code == 0
    (report,) = json.loads(target.read_text())
    assert report["sentence_f1"] is None
    assert report["corpus_f1"] is None
    scores = load(tiny_run, closed_vocabulary=True).score(text_file.read_text().splitlines())
    assert report["log_likelihood_nats"] == pytest.approx(sum(scores), rel=1e-6)


def test_several_runs_and_baselines(call: Call, tiny_run: Path, eos_run: Path, trees_file: Path) -> None:
    names = [str(tiny_run), str(eos_run), "left-branching", "right-branching", "random", "oracle"]
    result = call("evaluate", *names, trees_file, "--json", "-")
    reports = json.loads(result.out)
    assert [report["name"] for report in reports] == names
    plain, with_eos, *baselines = reports
    assert with_eos["tokens"] == plain["tokens"] + plain["sentences"]  # this run keeps the full stop
    assert with_eos["perplexity_tokens"] == with_eos["tokens"] + with_eos["sentences"]
    assert all(report["perplexity"] is None for report in baselines)
    assert max(reports[:1] + baselines, key=lambda report: report["sentence_f1"])["name"] == "oracle"


def test_gold_as_predictions_is_perfect(call: Call, trees_file: Path) -> None:
    (report,) = json.loads(call("evaluate", trees_file, "--predictions", trees_file, "--json", "-").out)
    assert report["sentence_f1"] == report["corpus_f1"] == 100
    assert report["log_likelihood_nats"] is None


def test_own_output_as_predictions_scores_as_the_run(
    call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path
) -> None:
    parsed = tmp_path / "parsed.trees"
    parsed.write_text(call("parse", tiny_run, trees_file).out)
    result = call("evaluate", tiny_run, trees_file, "--predictions", parsed, "--json", "-")
    run, predicted = json.loads(result.out)
    assert (run["sentence_f1"], run["corpus_f1"]) == (predicted["sentence_f1"], predicted["corpus_f1"])
    assert result.err == ""


def test_predictions_without_punctuation_are_aligned(call: Call, tmp_path: Path) -> None:
    gold, guess = tmp_path / "gold.trees", tmp_path / "guess.trees"
    gold.write_text("(S (NP (DT a) (NN dog)) (, ,) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .))\n")
    guess.write_text("(X (X (T a) (T dog)) (X (T sees) (X (T a) (T cat))))\n")
    assert json.loads(call("evaluate", gold, "--predictions", guess, "--json", "-").out)[0]["sentence_f1"] == 100


def test_predictions_of_other_sentences(call: Call, trees_file: Path, tmp_path: Path) -> None:
    lines = trees_file.read_text().splitlines()
    guess = tmp_path / "guess.trees"
    guess.write_text("\n".join(lines[:-1]))
    assert "same sentences" in call("evaluate", trees_file, "--predictions", guess).err
    guess.write_text("\n".join(["(S" + " (NN word)" * 99 + ")", *lines[1:]]))
    assert "tree 1 has 99 words" in call("evaluate", trees_file, "--predictions", guess).err
    guess.write_text("\n".join(line.replace("the", "qqq") for line in lines))
    result = call("evaluate", trees_file, "--predictions", guess)
    assert result.code == 0
    assert "other words" in result.err


def test_one_word_sentences_are_counted(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.trees"
    gold.write_text("(S (NN dog) (. !))\n(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NN cats)))\n(S (. .) (. .))\n")
    report = json.loads(call("evaluate", tiny_run, "oracle", gold, "--json", "-").out)
    for item in report:
        assert (item["sentences"], item["tokens"], item["f1_sentences"], item["f1_skipped_one_word"]) == (3, 5, 1, 2)
    assert report[0]["perplexity_tokens"] == 5
    assert "left out" in call("evaluate", tiny_run, gold).out


def test_trees_without_penn_tags_keep_their_words(call: Call, tmp_path: Path) -> None:
    gold = tmp_path / "gold.trees"
    gold.write_text("(X (X (T a) (T b)) (T ,) (X (T c) (T d)))\n")
    (report,) = json.loads(call("evaluate", "oracle", gold, "--json", "-").out)
    assert (report["tokens"], report["sentence_f1"]) == (4, pytest.approx(100))


@pytest.mark.parametrize("arguments", [["left-branching"], ["oracle"], ["--predictions", "gold"]])
def test_text_has_no_gold_trees(call: Call, text_file: Path, arguments: list[str]) -> None:
    result = call("evaluate", *arguments, text_file)
    assert result.code == 2
    assert "gold trees" in result.err


def test_one_name_alone_is_not_enough(call: Call, tiny_run: Path, trees_file: Path) -> None:
    for name in (str(tiny_run), "right-branching", str(trees_file)):
        result = call("evaluate", name)
        assert result.code == 2
        assert f"{name} stands alone; name a run or a baseline" in result.err


@pytest.mark.parametrize("target", ["nowhere/report.json", "."])
def test_a_bad_json_target_is_named_before_any_work(call: Call, trees_file: Path, tmp_path: Path, target: str) -> None:
    result = call("evaluate", "oracle", trees_file, "--json", tmp_path / target)
    assert (result.code, result.out) == (2, "")
    assert f"{tmp_path / target}: " in result.err


def test_trees_of_one_word_alone(call: Call, tmp_path: Path) -> None:
    gold = tmp_path / "gold.trees"
    gold.write_text("(S (NN dog) (. .))\n")
    result = call("evaluate", "oracle", gold)
    assert result.code == 2
    assert f"{gold}: none of the 1 trees has two words or more" in result.err


def test_a_piped_table_is_not_cut(call: Call, trees_file: Path, tmp_path: Path) -> None:
    name = tmp_path / f"{'a-long-name-' * 18}.trees"
    name.write_text(trees_file.read_text())
    result = call("evaluate", "oracle", trees_file, "--predictions", name)
    assert str(name) in next(line for line in result.lines if "oracle" in line)
    many = call("evaluate", *["left-branching", "right-branching", "random", "oracle"] * 6, trees_file)
    assert next(line for line in many.lines if "oracle" in line).split().count("right-branching") == 6
    assert "…" not in many.out


def test_missing_predictions_are_refused_before_a_run_is_loaded(
    call: Call, tiny_run: Path, trees_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simplepcfg.inference.systems.load", lambda *_: pytest.fail("a run was loaded"))
    result = call("evaluate", tiny_run, trees_file, "--predictions", "missing.trees")
    assert result.code == 2
    assert "missing.trees: no such file" in result.err
