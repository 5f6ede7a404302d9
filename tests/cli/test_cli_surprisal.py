"""`simplepcfg score --surprisal`: a table of words."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg import load
from simplepcfg.inference import surprisal
from tiny_runs import tiny_sentences

HEADER = (
    "sentence\tposition\tword\ttoken\tsurprisal_bits\tentropy_bits"
    "\tsyntactic_surprisal_bits\tlexical_surprisal_bits\tentropy_reduction_bits"
)

ALL = ["--surprisal", "--entropy"]


def table(text: str) -> list[list[str]]:
    lines = text.splitlines()
    assert lines[0] == HEADER
    return [line.split("\t") for line in lines[1:]]


def test_a_row_for_every_word_and_the_end(call: Call, tiny_run: Path) -> None:
    sentences = ["The dog , in the garden .", "", "dog", ". ,", "the xyzzy"]
    result = call("score", tiny_run, *ALL, stdin="\n".join(sentences) + "\n")
    assert result.code == 0
    rows = table(result.out)
    for number, sentence in enumerate(sentences, start=1):
        own = [row for row in rows if row[0] == str(number)]
        words = sentence.split()
        scored = [row for row in own if row[4] != "NA"]
        assert [row[2] for row in own] == [*words, "<end>"][: len(own)]
        assert len(own) == (len(words) + 1 if scored else len(words))
        assert [row[1] for row in own] == [str(k + 1) for k in range(len(own))]
    tokens = [row[3] for row in rows if row[0] == "1"]
    assert tokens == ["the", "dog", "NA", "in", "the", "garden", "NA", "<end>"]
    assert [row[3] for row in rows if row[0] == "5"] == ["the", "<unk>", "<end>"]
    assert rows[-1][2] == "<end>"


@pytest.mark.parametrize("name", ["tiny_run", "eos_run"])
def test_rows_add_up_to_the_score(call: Call, name: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(name)
    sentences = ["the dog sees a cat in the garden .", "the cat", "dog"]
    rows = table(call("score", folder, *ALL, "--quiet", stdin="\n".join(sentences)).out)
    for number, score in enumerate(load(folder).score(sentences), start=1):
        bits = sum(float(row[4]) for row in rows if row[0] == str(number) and row[4] != "NA")
        assert bits * math.log(2) == pytest.approx(-score, abs=1e-3)
    assert [row[2] for row in rows if row[0] == "3"] == ["dog", *(["<eos>"] if name == "eos_run" else []), "<end>"]


def test_records_from_python(tiny_run: Path) -> None:
    run = load(tiny_run)
    together = run.surprisal(["the dog , in the garden", "cat", "the man"], entropies=True)
    alone = [run.surprisal([sentence], entropies=True)[0] for sentence in ("the dog , in the garden", "cat", "the man")]
    for records, others in zip(together, alone, strict=True):
        for record, other in zip(records, others, strict=True):
            assert (record.word, record.token) == (other.word, other.token)
            assert record.surprisal == pytest.approx(other.surprisal, abs=1e-5)
            assert record.entropy == pytest.approx(other.entropy, abs=1e-5)
    assert together[0][2].surprisal is None
    entropy = together[0][0].entropy
    assert entropy is not None
    assert 0 < entropy < math.log(len(run.vocabulary) + 1)
    assert together[0][0].entropy == pytest.approx(together[1][0].entropy)
    assert together[1][1].surprisal == math.inf  # one word is no sentence of this grammar


@pytest.mark.parametrize("name", ["tiny_run", "eos_run"])
def test_parts_of_every_row_add_up(call: Call, name: str, request: pytest.FixtureRequest) -> None:
    """Also of unknown words, of the end, and of a one-word sentence, whose end is impossible without <eos>."""
    text = "\n".join([*tiny_sentences(12, seed=5), "dog", "the xyzzy sees a cat .", ". ,"])
    rows = table(call("score", request.getfixturevalue(name), *ALL, "--quiet", stdin=text).out)
    for row in rows:
        if row[3] == "NA":
            assert row[4:] == ["NA"] * 5
            continue
        surprisal, _, syntactic, lexical = map(float, row[4:8])
        assert syntactic >= 0
        assert lexical >= 0
        assert syntactic + lexical == pytest.approx(surprisal, abs=2e-6)
        if row[2] == "<end>":
            assert (syntactic, lexical, *row[8:]) == (surprisal, 0, "NA")
    scored = [row for row in rows if row[0] == "1" and row[3] != "NA"]
    for row, after in pairwise(scored):
        assert float(row[8]) == pytest.approx(max(0, float(row[5]) - float(after[5])), abs=2e-6)


@pytest.mark.parametrize("options", [[], ["--surprisal"], ALL, ["--regions"]])
def test_json_has_the_rows_of_the_table(call: Call, tiny_run: Path, tmp_path: Path, options: list[str]) -> None:
    file = tmp_path / "input.txt"
    regions = "item\tregion\n1\tThe dog\n1\tfollowed\n1\t—\n1\tthe child.\n2\tdog\n"
    file.write_text(regions if "--regions" in options else "the dog\n.\ndog\n")
    printed = call("score", tiny_run, file, *options)
    beside = call("score", tiny_run, file, *options, "--json", tmp_path / "rows.json")
    alone = call("score", tiny_run, file, *options, "--json", "-")
    assert beside.out == printed.out
    rows = json.loads(alone.out)
    assert rows == json.loads((tmp_path / "rows.json").read_text())
    if not options:
        texts = [["log_probability_nats"], *([line] for line in printed.lines)]
        assert [row.pop("sentence") for row in rows] == [1, 2, 3]
    else:
        texts = [line.split("\t") for line in printed.lines]
    assert [list(row) for row in rows] == [texts[0]] * (len(texts) - 1)
    for row, cells in zip(rows, texts[1:], strict=True):
        for value, cell in zip(row.values(), cells, strict=True):
            if isinstance(value, float):
                assert f"{value:.6f}" == cell
            else:
                assert cell in (str(value), "NA", "inf", "-inf", "Inf")


def test_depths_are_sums_of_span_marginals(tiny_run: Path, eos_run: Path) -> None:
    run = load(tiny_run)
    sentences = [*tiny_sentences(5, seed=9), "dog", "the , dog followed the child ."]
    for sentence, depths in zip(sentences, run.depths(sentences), strict=True):
        kept = [word for word in sentence.split() if word not in ",."]
        spans = run.span_marginals([kept])[0]
        expected = iter([float(spans[: k + 1, k + 1 :].sum()) for k in range(len(kept))])
        one = len(kept) == 1  # no constituent of two words
        for word, depth in zip(sentence.split(), depths, strict=True):
            assert depth == (None if word in ",." or one else pytest.approx(next(expected), abs=1e-5))
    (depths,) = load(eos_run).depths(["dog"])
    assert depths == [pytest.approx(1)]  # with <eos>


def test_frames_from_python(tiny_run: Path) -> None:
    run = load(tiny_run)
    sentences = ["the dog , followed the child .", "the child"]
    frame = run.surprisal(sentences, entropies=True).to_frame()
    assert list(frame.columns)[:5] == ["sentence", "position", "word", "token", "surprisal_nats"]
    assert list(frame.columns)[5:] == [
        "entropy_nats", "syntactic_surprisal_nats", "lexical_surprisal_nats", "entropy_reduction_nats"
    ]  # fmt: skip
    sums = frame.groupby("sentence")["surprisal_nats"].sum()
    assert (-sums).tolist() == pytest.approx(run.score(sentences), abs=1e-3)
    parts = frame["syntactic_surprisal_nats"] + frame["lexical_surprisal_nats"]
    assert (parts - frame["surprisal_nats"]).abs().max() < 1e-12
    columns = run.surprisal(sentences).to_frame().columns
    assert not {"entropy_nats", "entropy_reduction_nats"} & set(columns)  # they take time of their own
    assert list(run.surprisal([]).to_frame().columns) == list(columns)


@pytest.mark.parametrize("name", ["tiny_run", "eos_run"])
def test_records_without_ends(name: str, request: pytest.FixtureRequest) -> None:
    run = load(request.getfixturevalue(name))
    sentences = [*tiny_sentences(12, seed=5), "dog", "the dog , in the garden .", "."]
    every, fewer = (run.surprisal(sentences, ends=ends, entropies=True) for ends in (True, False))
    for sentence, records, others in zip(sentences, every, fewer, strict=True):
        assert [record.word for record in others] == sentence.split()
        for record, other in zip(records, others, strict=False):
            assert (record.word, record.token) == (other.word, other.token)
            assert record.surprisal == pytest.approx(other.surprisal, abs=1e-6)
            assert record.entropy == pytest.approx(other.entropy, abs=1e-6)


def test_batches_do_not_matter(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = [sentence.split() for sentence in tiny_sentences(40, seed=3)]
    found = load(tiny_run).surprisal(text, entropies=True)
    monkeypatch.setattr(surprisal, "cells_a_batch", lambda run: 100)
    alone = load(tiny_run).surprisal(text, entropies=True)
    monkeypatch.setattr(surprisal, "CELLS_A_NONTERMINAL", 500)
    assert surprisal._cells_a_batch(load(tiny_run)) == 2000
    monkeypatch.setattr(surprisal, "CHART_BYTES", 16 * 700)
    assert surprisal._cells_a_batch(load(tiny_run)) == 700
    for one, other in zip(found, alone, strict=True):
        assert [record.surprisal for record in one] == pytest.approx([r.surprisal for r in other], abs=1e-5)
        assert [record.entropy for record in one] == pytest.approx([r.entropy for r in other], abs=1e-5)


def test_no_sentences_give_a_header_and_entropy_needs_words(call: Call, tiny_run: Path) -> None:
    assert call("score", tiny_run, *ALL).lines == [HEADER]
    result = call("score", tiny_run, "--entropy", stdin="a b")
    assert (result.code, result.out) == (2, "")


def test_entropies_are_columns_where_asked_for(call: Call, tiny_run: Path) -> None:
    text = "the dog in the garden\nthe cat"
    every = [line.split("\t") for line in call("score", tiny_run, *ALL, stdin=text).lines]
    optional = [name in ("entropy_bits", "entropy_reduction_bits") for name in every[0]]
    fewer = [line.split("\t") for line in call("score", tiny_run, "--surprisal", stdin=text).lines]
    assert fewer == [[cell for cell, left_out in zip(row, optional, strict=True) if not left_out] for row in every]
    (records,) = load(tiny_run).surprisal(["the cat"])
    assert [(record.entropy, record.entropy_reduction) for record in records] == [(None, None)] * 3


def test_escaped_brackets_as_prepare_writes_them_are_left_out(call: Call, tiny_run: Path) -> None:
    rows = [line.split("\t") for line in call("score", tiny_run, "--surprisal", stdin="-lrb- the dog -rrb-").lines[1:]]
    assert [row[3] for row in rows[:4]] == ["NA", "the", "dog", "NA"]
