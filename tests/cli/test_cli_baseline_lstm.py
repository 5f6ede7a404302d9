"""`simplepcfg baseline lstm`, and controls in place of a run."""

import json
import math
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg import load
from simplepcfg.linguistics.controls.files import load_lstm
from tiny_runs import tiny_sentences

SMALL = ["--size", 8, "--epochs", 1, "--device", "cpu"]


@pytest.fixture(scope="module")
def train_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("train") / "train.txt"
    path.write_text("\n".join(tiny_sentences()) + "\n")
    return path


@pytest.mark.parametrize("name", ["tiny_run", "eos_run"])
def test_beside_a_run(
    call: Call,
    name: str,
    train_file: Path,
    text_file: Path,
    trees_file: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    folder, out, ngram = request.getfixturevalue(name), tmp_path / "lstm.safetensors", tmp_path / "bigram.safetensors"
    result = call("baseline", "lstm", "--train", train_file, "--like", folder, "--out", out, *SMALL)
    assert (result.code, result.out) == (0, "")
    assert "validation perplexity" in result.err
    assert "1.0 epochs of 114 sentences" in result.err
    model, run = load_lstm(out, "cpu"), load(folder)
    assert model.vocabulary == run.vocabulary
    assert model.preprocessing == run.preprocessing.model_copy(update={"eos": False})
    assert call("baseline", "ngram", "--train", train_file, "--like", folder, "--out", ngram).code == 0
    for file in (text_file, trees_file):
        outcome = call("evaluate", folder, out, ngram, file, "--json", "-")
        rows = json.loads(outcome.out)
        assert len({row["perplexity_tokens"] for row in rows}) == 1
        assert len({row["perplexity_sentences"] for row in rows}) == 1
        assert len({(row["vocabulary_size"], row["unknown_words"]) for row in rows}) == 1
        assert all(row["perplexity"] > 1 for row in rows)
        assert "vocabular" not in outcome.err
    sentences = [line.split() for line in text_file.read_text().splitlines()]
    for path, scores in ((out, model.score(sentences)), (ngram, None)):
        printed = [float(line) for line in call("score", path, text_file, "-q").lines]
        assert len(printed) == len(sentences)
        assert scores is None or printed == pytest.approx(scores, abs=1e-5)
        rows = [line.split("\t") for line in call("score", path, text_file, "--surprisal", "-q").lines[1:]]
        total = -sum(float(row[4]) for row in rows if row[0] == "1" and row[4] != "NA") * math.log(2)
        assert total == pytest.approx(printed[0], abs=1e-4)


def test_every_test_takes_it(call: Call, tiny_run: Path, train_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "lstm.safetensors"
    assert call("baseline", "lstm", "--train", train_file, "--like", tiny_run, "--out", out, *SMALL).code == 0
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("The cat in the garden.\tGarden the in cat the.\n")
    rows = json.loads(call("test", "minimal-pairs", out, tiny_run, pairs, "--json", "-").out)
    assert [row["model"] for row in rows] == [str(out), str(tiny_run)]
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
    options = ["--predictors", "surprisal,entropy", "--folds", 3, "--resamples", 5, "--json", "-"]
    found = call("test", "reading-times", out, words, *options)
    assert [row["predictor"] for row in json.loads(found.out)] == ["surprisal", "entropy"]
    refused = call("test", "reading-times", out, words, "--predictors", "depth")
    assert (refused.code, refused.err.count("\n")) == (2, 2)  # a remark on frequencies, and the refusal


def test_the_text_of_the_run(call: Call, train_file: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "run", tmp_path / "lstm.safetensors"
    sizes = ["model.nonterminals=4", "model.preterminals=8", "model.embedding=8", "training.epochs=1"]
    settings = [word for size in sizes for word in ("--set", size)]
    assert call("train", "sn-pcfg-small", "--train", train_file, "--out", folder, *settings).code == 0
    result = call("baseline", "lstm", "--like", folder, "--out", out, *SMALL)
    facts = json.loads((folder / "run.json").read_text())["data"]
    assert f"epochs of {facts['train']['sentences']} sentences" in result.err
    best = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert f"({best['valid_tokens']} tokens" in result.err


def test_a_vocabulary_of_its_own(call: Call, tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "model.safetensors"
    text.write_text("The dog , the cat .\nthe dog barks .\n" * 4)
    options = ["--punctuation", "--min-count", 4, "--vocabulary-size", 4, "--valid", text, "--layers", 1]
    assert call("baseline", "lstm", "--train", text, "--out", out, *options, *SMALL).code == 0
    assert set(load_lstm(out, "cpu").vocabulary.words) == {"<pad>", "<unk>", "the", "dog", ".", ","}
    text.write_text("Mr. Fox didn't bark. The dog didn't bark.\n" * 3)
    assert call("baseline", "lstm", "--train", text, "--out", out, "--raw", *SMALL).code == 0
    assert {"mr.", "n't", "did"} <= set(load_lstm(out, "cpu").vocabulary.words)


def test_what_is_refused(call: Call, tiny_run: Path, text_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    for arguments in (
        ["--train", "nowhere.txt", "--out", out],
        ["--train", text_file, "--out", tmp_path / "no" / "where"],
        ["--train", text_file, "--out", out, "--like", tmp_path],
        ["--train", text_file, "--out", out, "--like", tiny_run, "--min-count", 2],
        ["--out", out],
        ["--out", out, "--like", tiny_run],  # its text was no file
        ["--out", out, "--like", tiny_run, "--valid", text_file],
        ["--train", text_file, "--out", out, "--minutes", 0],
        ["--train", text_file, "--out", out, "--dropout", 1],
        ["--train", text_file, "--out", out, "--device", "cuda:99"],
    ):
        result = call("baseline", "lstm", *arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.count("\n") == 1
    assert not out.exists()
