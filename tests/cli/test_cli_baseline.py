"""`simplepcfg baseline ngram`, and the model in place of a run."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from command_calls import Call
from simplepcfg import load
from simplepcfg.linguistics.controls.ngram_files import load_ngram
from simplepcfg.runs.corpus import hold_out
from simplepcfg.runs.run_folder import RunFolder
from tiny_runs import SETTINGS, tiny_sentences


@pytest.mark.parametrize("name", ["tiny_run", "eos_run"])
def test_like_a_run(call: Call, name: str, text_file: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder, out, pairs = request.getfixturevalue(name), tmp_path / "bigram.safetensors", tmp_path / "pairs.tsv"
    result = call("baseline", "ngram", "--train", text_file, "--like", folder, "--order", 2, "--out", out)
    assert (result.code, result.out) == (0, "")
    assert "2-grams, from 25 sentences" in result.err
    model, run = load_ngram(out), load(folder)
    assert model.vocabulary == run.vocabulary
    assert model.preprocessing == run.preprocessing.model_copy(update={"eos": False})
    pairs.write_text("The cat in the garden.\tGarden the in cat the.\n")
    rows = json.loads(call("test", "minimal-pairs", out, folder, pairs, "--json", "-").out)
    assert [row["model"] for row in rows] == [str(out), str(folder)]
    items = tmp_path / "items.tsv"
    items.write_text("item\tword\n1\tThe\n1\tcat.\n")
    lines = call("score", out, items, "--regions").lines
    bits = -model.score([["the", "cat", *(["."] if name == "eos_run" else [])]])[0] / math.log(2)
    end = model.surprisal([["the", "cat", "."]])[0][-1].surprisal
    assert end is not None
    assert sum(float(line.split("\t")[3]) for line in lines[1:]) == pytest.approx(bits - end / math.log(2), abs=1e-5)


@pytest.mark.parametrize("eos", ["false", "true"])
def test_from_the_text_of_a_run(call: Call, eos: str, tmp_path: Path) -> None:
    folder, text = tmp_path / "run", tmp_path / "train.txt"
    sentences = tiny_sentences()
    text.write_text("\n".join(sentences) + "\n")
    settings = [word for setting in (*SETTINGS, f"data.eos={eos}") for word in ("--set", setting)]
    assert call("train", "sn-pcfg-small", "--train", text, "--out", folder, *settings).code == 0
    config = RunFolder(folder).read_config()
    out, counted = tmp_path / "model.safetensors", tmp_path / "counted.txt"
    result = call("baseline", "ngram", "--like", folder, "--order", 2, "--out", out)
    assert result.code == 0
    assert "held out" in result.err
    lengths = np.array([len(config.data.preprocessing.apply(line.split()).tokens) for line in sentences])
    kept, held_out = hold_out(lengths, config.seed)
    assert len(held_out) > 0
    counted.write_text("".join(sentences[index] + "\n" for index in kept))
    same = tmp_path / "same.safetensors"
    assert call("baseline", "ngram", "--train", counted, "--like", folder, "--order", 2, "--out", same).code == 0
    for level, other in zip(load_ngram(out).levels, load_ngram(same).levels, strict=True):
        assert np.array_equal(level.keys, other.keys)
        assert np.array_equal(level.log_probabilities, other.log_probabilities)
        assert np.array_equal(level.log_backoffs, other.log_backoffs)
    result = call("baseline", "ngram", "--like", folder, "--raw", "--out", out)
    assert (result.code, result.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("name", ["tiny_run", "eos_run"])
def test_beside_a_run(
    call: Call, name: str, text_file: Path, trees_file: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder, out, train = request.getfixturevalue(name), tmp_path / "model.safetensors", tmp_path / "train.txt"
    train.write_text("\n".join(tiny_sentences()) + "\n")
    assert call("baseline", "ngram", "--train", train, "--like", folder, "--out", out).code == 0
    for file in (text_file, trees_file):
        outcome = call("evaluate", folder, out, file, "--json", "-")
        rows = json.loads(outcome.out)
        assert len({row["perplexity_tokens"] for row in rows}) == 1
        assert len({row["perplexity_sentences"] for row in rows}) == 1
        assert len({(row["vocabulary_size"], row["unknown_words"]) for row in rows}) == 1
        assert all(row["perplexity"] > 1 for row in rows)
        assert "vocabular" not in outcome.err
    sentences = [line.split() for line in text_file.read_text().splitlines()]
    printed = [float(line) for line in call("score", out, text_file, "-q").lines]
    assert printed == pytest.approx(load_ngram(out).score(sentences), abs=1e-5)
    rows = [line.split("\t") for line in call("score", out, text_file, "--surprisal", "-q").lines[1:]]
    total = -sum(float(row[4]) for row in rows if row[0] == "1" and row[4] != "NA") * math.log(2)
    assert total == pytest.approx(printed[0], abs=1e-4)


def test_every_test_takes_it(call: Call, tiny_run: Path, text_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    assert call("baseline", "ngram", "--train", text_file, "--like", tiny_run, "--out", out).code == 0
    suite = tmp_path / "suite.json"
    regions = [{"region_number": 1, "content": "The dogs"}, {"region_number": 2, "content": "bark."}]
    conditions = [{"condition_name": name, "regions": regions} for name in ("a", "b")]
    suite.write_text(
        json.dumps(
            {
                "meta": {"name": "s", "metric": "sum"},
                "predictions": [{"type": "formula", "formula": "(2;%a%) < (2;%b%)"}],
                "items": [{"item_number": 1, "conditions": conditions}],
            }
        )
    )
    assert json.loads(call("test", "syntaxgym", out, suite, "--json", "-").out)[0]["ties"] == 1
    words = tmp_path / "words.tsv"
    lines = [
        f"1\t{number}\t{place}\t{word}\t{300 + 7 * len(word) + 3 * place + number % 5}"
        for number, sentence in enumerate(tiny_sentences(40, seed=2))
        for place, word in enumerate(sentence.split())
    ]
    words.write_text("\n".join(["item\tsentence\tzone\tword\tmean_rt", *lines]) + "\n")
    found = call("test", "reading-times", out, words, "--folds", 3, "--resamples", 5, "--json", "-")
    assert [row["model"] for row in json.loads(found.out)] == [str(out)]


def test_what_is_refused(call: Call, tiny_run: Path, text_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    for arguments in (
        ["--out", out],
        ["--train", text_file, "--out", out],
        ["--like", tiny_run, "--out", out],  # its text was no file
        ["--train", "nowhere.txt", "--out", out, "--like", tiny_run],
        ["--train", text_file, "--out", tmp_path / "no" / "where", "--like", tiny_run],
        ["--train", text_file, "--out", out, "--like", tmp_path],
    ):
        result = call("baseline", "ngram", *arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.count("\n") == 1
    assert not list(tmp_path.glob("model.*"))


def test_truncated_models_are_called_damaged(call: Call, tiny_run: Path, text_file: Path, tmp_path: Path) -> None:
    out, pairs = tmp_path / "model.safetensors", tmp_path / "pairs.tsv"
    pairs.write_text("a cat\tcat a\n")
    assert call("baseline", "ngram", "--like", tiny_run, "--train", text_file, "--out", out).code == 0
    content = out.read_bytes()
    for length in (400, len(content) // 2, len(content) - 1):
        out.write_bytes(content[:length])
        for arguments in (
            ["score", out, text_file],
            ["evaluate", out, text_file],
            ["test", "minimal-pairs", out, pairs],
        ):
            result = call(*arguments)
            assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
            assert f"{out}: damaged" in result.err


def test_pipes_are_not_replaced_by_models(call: Call, tiny_run: Path, text_file: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for out in ("-", pipe, tmp_path):
        result = call("baseline", "ngram", "--like", tiny_run, "--train", text_file, "--out", out)
        assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert pipe.is_fifo()
    assert not Path("-").exists()
