"""`train` says which words become `<unk>`, and `score` when a run has met none."""

from pathlib import Path

from command_calls import Call
from tiny_runs import SETTINGS, make_tiny_run

UNTRAINED = "met no unknown word in training"


def test_words_seen_once_are_learned_from_by_default(call: Call, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the dog sees a cat\nthe cat sees a dog\n" * 20 + "the dog sees a zebra\n")
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    for keep in (False, True):
        run = tmp_path / f"run-{keep}"
        keeping = ["--set", "data.min_count=1"] * keep
        told = call("train", "sn-pcfg-small", "--train", text, "--valid", text, "--out", run, *settings, *keeping)
        assert told.code == 0
        assert ("1 of the 1 words seen once are <unk>" in told.err + told.out) is not keep
        told = call("score", run, stdin="the dog sees a giraffe\n")
        assert "hence <unk>: 1 of 5 words" in told.err
        assert (UNTRAINED in told.err) is keep
        told = call("score", run, "--closed-vocabulary", stdin="the dog sees a giraffe\n")
        assert "hence <unk>, whatever their spelling: 1 of 5 words" in told.err
        assert (UNTRAINED in told.err) is keep
        assert call("score", run, stdin="the dog sees a cat\n").err.count("\n") == 1


def test_nothing_is_said_of_runs_that_did_not_note_it(call: Call, tmp_path: Path) -> None:
    """Nor where the run has met unknown words."""
    run = make_tiny_run(tmp_path / "run")
    assert UNTRAINED not in call("score", run, stdin="the xyzzy\n").err
