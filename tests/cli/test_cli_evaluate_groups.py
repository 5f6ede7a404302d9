"""`simplepcfg evaluate` of several runs: groups, intervals, comparisons, formats."""

import json
import shutil
import statistics
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg import load
from tiny_runs import make_tiny_run


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory, tiny_run: Path) -> Path:
    """A folder of two runs that differ in their seed."""
    folder = tmp_path_factory.mktemp("group") / "seeds"
    folder.mkdir()
    shutil.copytree(tiny_run, folder / "seed-0")
    make_tiny_run(folder / "seed-1", "seed=1")
    return folder


def test_a_folder_of_runs_is_a_group(call: Call, seeds: Path, trees_file: Path) -> None:
    single = [load(seeds / name).evaluate(trees_file) for name in ("seed-0", "seed-1")]
    group, baseline = json.loads(call("evaluate", seeds, "left-branching", trees_file, "--json", "-").out)
    assert (group["name"], group["runs"]) == (str(seeds), 2)
    scores = [report.sentence_f1 or 0.0 for report in single]
    assert group["sentence_f1"] == pytest.approx(statistics.fmean(scores))
    assert group["standard_deviation"]["sentence_f1"] == pytest.approx(statistics.stdev(scores))
    assert [member["sentence_f1"] for member in group["members"]] == scores
    assert group["members"][0]["perplexity_tokens"] == single[0].to_dict()["perplexity_tokens"]
    assert baseline["name"] == "left-branching"
    table = call("evaluate", seeds, trees_file).out
    assert f"{statistics.fmean(scores):.1f} ± {statistics.stdev(scores):.1f}" in table


def test_groups_on_text(call: Call, seeds: Path, text_file: Path) -> None:
    (found,) = json.loads(call("evaluate", seeds, text_file, "--interval", "--json", "-").out)
    assert found["sentence_f1"] is None
    assert found["intervals"]["perplexity"]["low"] < found["perplexity"] < found["intervals"]["perplexity"]["high"]


def test_intervals_and_comparisons(call: Call, seeds: Path, trees_file: Path) -> None:
    asked = ["evaluate", seeds, "random", trees_file, "--interval", "--compare", "random", "--json"]
    first, again = (call(*asked, "-").out for _ in range(2))
    assert first == again
    group, baseline = json.loads(first)
    assert group["comparison"]["with"] == "random"
    assert 0 < group["comparison"]["sentence_f1"]["p_value"] <= 1
    assert "perplexity" not in group["comparison"]  # random trees have none
    assert "comparison" not in baseline
    low, high = (group["intervals"]["sentence_f1"][end] for end in ("low", "high"))
    assert low <= group["sentence_f1"] <= high
    table = call(*asked[:-1]).out
    assert "difference from random" in table
    assert "95 % interval" in table


def test_markdown(call: Call, trees_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "scores.json"
    result = call("evaluate", "oracle", "random", trees_file, "--format", "markdown", "--json", target)
    assert result.out.startswith("on ")
    assert "recall by label" in result.out
    assert len(json.loads(target.read_text())) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--compare", "ours"], "comparison with ours: no column has this name; take one of random"),
        (["--compare", "random"], "nothing beside it"),
        (["--format", "word"], "--format"),
        (["{empty}"], "config.toml is missing"),
    ],
)
def test_refusals_are_one_line(
    call: Call, trees_file: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    given = [argument.format(empty=tmp_path) for argument in arguments]
    result = call("evaluate", "random", *given, trees_file)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_other_vocabularies_are_shown_and_not_compared(
    call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path
) -> None:
    small = make_tiny_run(tmp_path / "small", "data.vocabulary_size=5")
    asked = ["evaluate", tiny_run, small, trees_file, "--compare", small]
    result = call(*asked)
    assert result.code == 0
    assert "over different vocabularies, so they are not comparable" in result.err
    rows = {line[2:].split("   ")[0].strip(): line for line in result.lines if line.strip()}
    assert "other vocabulary" in [line for line in result.lines if line.split()[:1] == ["perplexity"]][-1]
    assert rows["words in the vocabulary beside <unk>"].split()[-1] == "5"
    first, second = json.loads(call(*asked, "--json", "-").out)
    assert "perplexity" not in first["comparison"]
    assert 0 < first["comparison"]["sentence_f1"]["p_value"] <= 1
    assert second["vocabulary_size"] == 5
    assert 0 < second["unknown_share"] < 1
    assert second["unknown_words"] == pytest.approx(second["unknown_share"] * second["tokens"])
    same = call("evaluate", tiny_run, tiny_run, trees_file, "--compare", tiny_run, "--json", "-")
    assert same.code == 0
    assert "vocabular" not in same.err
