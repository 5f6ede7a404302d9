"""`simplepcfg score --regions` and surprisals of regions from Python."""

import math
import sys
from pathlib import Path

import pandas
import pytest

from command_calls import Call
from simplepcfg import InputError, load

ITEMS = (
    "item\tcondition\tzone\tregion\trt\n"
    "1\tgood\t1\tThe dog\t310.5\n1\tgood\t2\tin the garden\tNA\n1\tgood\t3\t.\t300\n"
    '1\tbad\t1\tThe xyzzy\t350\n1\tbad\t2\t"in\n'
).replace('"in\n', '"in the" garden.\t400\n')


@pytest.fixture
def items(tmp_path: Path) -> Path:
    path = tmp_path / "items.tsv"
    path.write_text(ITEMS)
    return path


def test_a_table_that_pandas_reads(call: Call, tiny_run: Path, items: Path, tmp_path: Path) -> None:
    result = call("score", tiny_run, items, "--regions", "--spillover", 2)
    assert result.code == 0, result.err
    assert result.err == ""  # the column `unknown` tells which words are
    path = tmp_path / "scored.tsv"
    path.write_text(result.out)
    frame = pandas.read_csv(path, sep="\t")
    assert list(frame["region"]) == ["The dog", "in the garden", ".", "The xyzzy", '"in the" garden.']
    assert list(frame["unknown"]) == [0, 0, 0, 1, 0]
    assert frame["rt"].isna().tolist() == [False, True, False, False, False]
    words, other = load(tiny_run).surprisal(["the dog in the garden .", "the xyzzy in the garden"])
    nats = [record.surprisal or 0.0 for record in words]
    expected = [sum(nats[:2]), sum(nats[2:5]), nats[-1], sum(record.surprisal or 0.0 for record in other[:2])]
    assert list(frame["surprisal_bits"])[:4] == pytest.approx([n / math.log(2) for n in expected], abs=1e-4)
    assert frame["surprisal_bits_prev1"].isna().tolist() == [True, False, False, True, False]
    assert frame["surprisal_bits_prev2"].isna().tolist() == [True, True, False, True, True]
    assert frame["surprisal_bits_prev2"][2] == frame["surprisal_bits"][0]


def test_a_table_as_csv_of_several_sentences(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes('\ufeffItem;Region\r\n1;"The dog"\r\n1;in the garden.\r\n1;"The cat; the dog."\r\n'.encode())
    result = call("score", tiny_run, path, "--regions")
    assert result.code == 0, result.err
    assert result.lines[0] == (
        "Item\tRegion\ttokens\tsurprisal_bits\tentropy_bits"
        "\tsyntactic_surprisal_bits\tlexical_surprisal_bits\tentropy_reduction_bits\tunknown"
    )
    assert result.lines[3].startswith("1\tThe cat; the dog.\tthe cat the dog\t")
    assert "seem to be several, as in `garden. The`" in result.err
    assert call("score", tiny_run, path, "--regions", "--quiet").err == ""
    assert "`simplepcfg score --regions` reads it as one" in call("score", tiny_run, path).err


def test_conditions_that_are_the_same_to_the_model(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item,condition,region\n1,comma,The dog\n1,comma,followed the cat.\n")
    result = call("score", tiny_run, path, "--regions")
    assert "same words" not in result.err
    with path.open("a") as file:
        file.write("1,plain,The dog\n1,plain,followed the cat\n2,comma,The cat.\n2,plain,The dog.\n")
    result = call("score", tiny_run, path, "--regions")
    assert result.code == 0
    assert "the same words to the model in 1 of 2 items, as comma and plain of item 1: it drops" in result.err


def test_what_is_refused(call: Call, tiny_run: Path, items: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the dog\n")
    for arguments in (
        [items, "--regions", "--surprisal"],
        [items, "--regions", "--raw"],
        [items, "--spillover", "2"],
        [text, "--regions"],
        ["nowhere.tsv", "--regions"],
    ):
        result = call("score", tiny_run, *arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.count("\n") == 1


def test_regions_from_python(tiny_run: Path) -> None:
    run = load(tiny_run)
    tables = run.region_surprisal([["The dog", "in the garden."], ["The cat", "xyzzies"]])
    frame = tables.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["region"]) == ["The dog", "in the garden.", "The cat", "xyzzies"]
    assert list(frame["sentence"]) == [1, 1, 2, 2]
    assert list(frame["position"]) == [1, 2, 1, 2]
    assert list(frame["unknown"]) == [0, 0, 0, 1]
    assert frame["surprisal_nats"].tolist() == [region.surprisal for table in tables for region in table]
    with pytest.raises(InputError, match="list of its regions"):
        run.region_surprisal(["the dog"])


def test_frames_of_words(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = load(tiny_run).surprisal(["the dog , in the garden"])
    frame = tables.to_frame()
    assert list(frame["word"]) == ["the", "dog", ",", "in", "the", "garden", "<end>"]
    assert frame["surprisal_nats"].isna().tolist() == [False, False, True, False, False, False, False]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        tables.to_frame()
