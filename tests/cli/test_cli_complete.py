"""`simplepcfg complete`: next words, the end, and drawn continuations."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
import torch

from command_calls import Call
from simplepcfg import load
from simplepcfg.data.vocabulary import EOS
from simplepcfg.errors import InputError
from simplepcfg.grammars import Grammar, SimpleGrammar
from simplepcfg.inference.run import Run


def test_a_table_with_the_end(call: Call, tiny_run: Path) -> None:
    result = call("complete", tiny_run, "The dog ,", "-k", 4)
    assert result.code == 0
    header, *rows = [line.split("\t") for line in result.lines]
    assert header == ["word", "probability"]
    assert len(rows) == 5
    probabilities = [float(row[1]) for row in rows]
    assert probabilities[:4] == sorted(probabilities[:4], reverse=True)
    assert rows[-1][0] == "<end>"
    assert "left out: ," in result.err
    assert "'the dog'" in result.err
    assert call("complete", tiny_run, "The", "dog", "-k", 4, "--quiet").out == result.out
    assert call("complete", tiny_run, "The", "dog", "--quiet").err == ""


@pytest.mark.parametrize("name", ["tiny_run", "eos_run"])
def test_probabilities_are_the_scores(name: str, request: pytest.FixtureRequest) -> None:
    run: Run = load(request.getfixturevalue(name))
    found = run.complete("the dog in", k=len(run.vocabulary))
    assert sum(p for _, p in found.words) + found.end == pytest.approx(1.0, abs=1e-9)
    assert found.log_probability == pytest.approx(
        -sum(r.surprisal or 0.0 for r in run.surprisal(["the dog in"])[0][:3]), abs=1e-4
    )
    for word, probability in found.words[:5]:
        if word != "<unk>":
            record = run.surprisal([f"the dog in {word}"], entropies=True)[0][3]
            assert record.surprisal == pytest.approx(-math.log(probability), abs=1e-4)
            assert record.entropy == pytest.approx(found.entropy, abs=1e-4)
    assert not {"<pad>", EOS if name == "eos_run" else ""} & {word for word, _ in found.words}


def test_the_first_word(call: Call, tiny_run: Path) -> None:
    result = call("complete", tiny_run, "--top", 3)
    assert result.code == 0
    assert result.lines[-1] == "<end>\t0.000000"
    assert "at the beginning of a sentence: next-word entropy" in result.err
    assert "-0.00" not in result.err
    assert call("complete", tiny_run, " ", "--top", 3).out == result.out


def test_unknown_words_are_named(call: Call, tiny_run: Path) -> None:
    result = call("complete", tiny_run, "the xyzzy")
    assert result.code == 0
    assert "not in the vocabulary, hence <unk>: xyzzy" in result.err


def test_samples(call: Call, tiny_run: Path, eos_run: Path) -> None:
    result = call("complete", tiny_run, "the dog", "--samples", 6, "--seed", 3, "--max-length", 9)
    drawn = result.lines[result.lines.index("") + 1 :]
    assert len(drawn) == 6
    for line in drawn:
        words = line.removesuffix(" …").split()
        assert words[:2] == ["the", "dog"]
        assert len(words) <= 9
        assert line.endswith(" …") <= (len(words) == 9)
    again = call("complete", tiny_run, "the dog", "--samples", 6, "--seed", 3, "--max-length", 9)
    other = call("complete", tiny_run, "the dog", "--samples", 6, "--seed", 4, "--max-length", 9)
    assert again.out == result.out != other.out
    for sample in load(eos_run).complete("the dog", samples=20, max_length=12).samples:
        assert EOS not in sample.words


def test_samples_follow_the_distribution(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simplepcfg.inference.completion.CHART_BYTES", 200_000)  # so that they are drawn in parts
    run = load(tiny_run)
    count = 600
    found = run.complete("the dog", k=3, samples=count, max_length=3)
    drawn = Counter(sample.words[0] if sample.words else "<end>" for sample in found.samples)
    for word, probability in [*found.words, ("<end>", found.end)]:
        deviation = math.sqrt(count * probability * (1 - probability))
        assert abs(drawn[word] - count * probability) < 5 * deviation + 1
    # Of those cut off after a third word, as many end there as P(end | three words) says.
    ends = sum(
        run.complete(["the", "dog", *sample.words]).end for sample in found.samples[:100] if len(sample.words) == 1
    )
    seen = sum(sample.ended for sample in found.samples[:100] if len(sample.words) == 1)
    assert abs(seen - ends) < 5 * math.sqrt(100 / 4)


def test_json(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    result = call("complete", tiny_run, "the xyzzy .", "--samples", 2, "--json", "-")
    found = json.loads(result.out)
    assert found["tokens"] == ["the", "<unk>"]
    assert found["unknown"] == ["xyzzy"]
    assert found["dropped"] == ["."]
    assert len(found["words"]) == 10
    assert set(found["words"][0]) == {"word", "probability"}
    assert found["log_probability_nats"] < 0 < found["entropy_nats"]
    assert set(found["samples"][0]) == {"words", "ended"}
    path = tmp_path / "next.json"
    assert call("complete", tiny_run, "the", "--json", path).out.startswith("word\tprobability")
    assert json.loads(path.read_text())["tokens"] == ["the"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["the " * 41, "--samples", 1], "the prefix has 41 words, more than max_length = 40"),
        (["the dog", "--samples", 1, "--max-length", 1], "max_length = 1"),
        (["the", "--samples", -1], "invalid value for '--samples': -1; give 0 or more"),
        (["the", "-k", -2], "-2; give 0 or more"),
        (["the", "--samples", 1, "--seed", -1], "seed = -1"),
        (["the", "--samples", 1, "--seed", 2**70], "from 0 to 2^63 - 1"),
        (["the dog <eos>"], "ends a sentence"),
        (["the", "--json", "nowhere/a.json"], "no folder"),
    ],
)
def test_refusals_are_one_line(call: Call, tiny_run: Path, arguments: list[object], said: str) -> None:
    result = call("complete", tiny_run, *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert result.err.count("\n") == 1


def test_length_bounds_continuations_alone(call: Call, tiny_run: Path) -> None:
    result = call("complete", tiny_run, "the " * 41)
    assert result.code == 0
    assert result.lines[-1].startswith("<end>")


def test_what_cannot_answer_says_so(
    call: Call, tiny_run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert call("complete", "right-branching", "the").code == 2
    assert call("complete", tmp_path / "none", "the").code == 2
    monkeypatch.setattr(SimpleGrammar, "growing_prefix", Grammar.growing_prefix)
    monkeypatch.setattr(SimpleGrammar, "_prefix_states", Grammar._prefix_states)
    for arguments in (["complete", tiny_run, "the"], ["score", tiny_run, "--surprisal"]):
        result = call(*arguments, stdin="the dog")
        assert result.code == 2
        assert "this grammar has no prefix probabilities; use an sn-pcfg" in result.err


def test_endless_grammars_are_remarked_on(call: Call, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimpleGrammar, "termination_probability", lambda self: torch.tensor(0.25))
    assert "only 25 % of this grammar's probability" in call("complete", tiny_run, "the").err


def test_an_impossible_prefix(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(tiny_run)
    emissions = run.grammar.emissions
    monkeypatch.setattr(
        type(emissions), "log_probabilities", lambda self, words: torch.full((*words.shape, 8), -math.inf)
    )
    with pytest.raises(InputError, match="no sentence of this grammar begins with 'the dog'"):
        run.complete("the dog")
