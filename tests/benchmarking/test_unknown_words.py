"""The script that measures what spellings change: its misspellings, and its answers on a tiny run."""

import csv
import json
import random
import sys
from itertools import islice
from pathlib import Path

import pytest

import unknown_words
from simplepcfg.inference.run import load
from tiny_runs import make_tiny_run, tiny_sentences


def test_a_misspelling_is_one_edit_away() -> None:
    generator = random.Random(1)
    for _ in range(200):
        wrong = unknown_words.misspell("followed", generator)
        assert abs(len(wrong) - 8) <= 1
        assert sum(wrong.count(letter) != "followed".count(letter) for letter in set("followed" + wrong)) <= 2


def test_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_tiny_run(tmp_path / "run")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(tiny_sentences(30)))
    model = load(run)
    for words, wrong in islice(unknown_words.misspellings(model, [line.split() for line in tiny_sentences(30)]), 20):
        ((right, other),) = [pair for pair in zip(words, wrong, strict=True) if pair[0] != pair[1]]
        assert right in words
        assert not unknown_words.is_known(model, other)
    pair = {"sentence_good": "The dog arrived.", "sentence_bad": "The dog xyzzy.", "UID": "one"}
    for name in ("one", "two"):
        lines = [json.dumps({**pair, "UID": name})] * 3
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    monkeypatch.setattr(unknown_words, "RESULTS", tmp_path / "results.csv")
    arguments = [str(run), "--text", str(text), "--misspellings", "40", "--blimp", str(tmp_path), "--pairs", "2"]
    arguments += ["--novels", str(text), "--kept", str(tmp_path / "kept.json")]
    monkeypatch.setattr(sys, "argv", ["unknown_words.py", *arguments])
    unknown_words.main()
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert [(row["material"], row["items"]) for row in rows] == [
        ("misspellings", "40"),
        ("BLiMP", "4"),
        ("novels", "30"),
    ]
    assert float(rows[0]["open_percent"]) > 95  # whatever <unk> has, four letters cost more
    assert float(rows[1]["open_percent"]) >= float(rows[1]["closed_percent"])
    assert rows[1]["known_percent"] == ""  # every pair has an unknown word
    assert float(rows[2]["character_perplexity"]) < float(rows[2]["perplexity"])
    assert capsys.readouterr().out.count("\n") == 3
    expected = model.score([["The", "dog", "xyzzy", "."]]), load(run, closed_vocabulary=True).score(["The dog xyzzy ."])
    remembering = unknown_words.Remembering(model, tmp_path / "kept.json")
    for closed in (False, True):
        remembering.closed = closed
        assert remembering.score([["The", "dog", "xyzzy", "."]]) == pytest.approx(expected[closed], abs=1e-4)
        (records,) = remembering.surprisal([["The", "dog", "xyzzy", "."]])
        assert -sum(item.surprisal or 0 for item in records) == pytest.approx(expected[closed][0], abs=1e-4)
