"""`simplepcfg score`: one number a line."""

import math
import warnings
from pathlib import Path

import pytest
from torch import Tensor

from command_calls import Call
from simplepcfg import load
from simplepcfg.grammars import SimpleGrammar


def test_numbers_in_the_input_s_order(call: Call, tiny_run: Path) -> None:
    sentences = ["the dog sees a cat in the garden", "the dog", "", "dog", "the dog sees a cat"]
    result = call("score", tiny_run, stdin="\n".join(sentences) + "\n")
    scores = [float(line) for line in result.lines]
    assert scores == pytest.approx(load(tiny_run).score(sentences), abs=1e-5)
    assert scores[2:4] == [-math.inf, -math.inf]
    assert scores[0] < scores[4] < scores[1] < 0


def test_pruned_numbers_come_with_their_error(call: Call, tiny_run: Path) -> None:
    whole, pruned = (call("score", tiny_run, *more, stdin="the dog sees a cat\n") for more in ([], ["--pruned"]))
    assert pruned.lines == whole.lines  # a small grammar loses nothing
    assert "too small by about 0 nats" in pruned.err
    words, pruned = (
        call("score", tiny_run, "--surprisal", *more, stdin="the dog sees a cat\n") for more in ([], ["--pruned"])
    )
    assert pruned.lines == words.lines
    assert "surprisals are too large by about 0 bits" in pruned.err
    assert call("score", tiny_run, "--pruned", "--regions", stdin="the dog").code == 2


def test_the_unit_is_said_on_standard_error_only(call: Call, tiny_run: Path) -> None:
    assert "nats" in call("score", tiny_run, stdin="the dog").err
    assert call("score", tiny_run, "--quiet", stdin="the dog").err == ""
    assert "nats" in call("score", "--help").out
    refused = call("score", tiny_run, "nowhere.txt")
    assert (refused.code, refused.err.count("\n")) == (2, 1)  # the refusal alone


def test_json_is_printed_without_a_remark_on_units(call: Call, tiny_run: Path, text_file: Path) -> None:
    assert "nats" not in call("score", tiny_run, text_file, "--json", "-").err


def test_one_word_has_a_probability_with_eos(call: Call, eos_run: Path) -> None:
    scores = [float(line) for line in call("score", eos_run, stdin="dog\n\n").lines]
    assert math.isfinite(scores[0])
    assert scores[1] == -math.inf


def test_sentences_without_a_probability_are_counted(call: Call, tiny_run: Path, eos_run: Path) -> None:
    said = call("score", tiny_run, stdin="dog\n\nthe dog\n").err
    assert "-inf for 2 sentences: fewer than two words (dropped punctuation is not counted) have no tree" in said
    assert "-inf" not in call("score", tiny_run, stdin="the dog\n").err
    assert "-inf for 1 sentence: it has no words" in call("score", eos_run, stdin="dog\n\n").err


def test_baselines_have_no_probability(call: Call) -> None:
    result = call("score", "left-branching", stdin="a b")
    assert (result.code, result.out) == (2, "")


def test_a_warning_is_a_remark_of_one_line(call: Call, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def warning(self: SimpleGrammar, *given: object, **choices: object) -> Tensor:
        warnings.warn("two\nlines", RuntimeWarning, stacklevel=2)
        return log_partition(self, *given, **choices)  # type: ignore[arg-type]

    log_partition = SimpleGrammar.log_partition
    monkeypatch.setattr(SimpleGrammar, "log_partition", warning)
    result = call("score", tiny_run, "--quiet", stdin="the dog")
    assert (result.code, result.err) == (0, "simplepcfg: two lines\n")
