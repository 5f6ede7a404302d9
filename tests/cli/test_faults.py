"""Bad input that used to get through, or to be refused without the place that the user needs."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg.cli.output import table_row
from simplepcfg.errors import InputError, ResourceError
from simplepcfg.inference import batches as batched
from simplepcfg.inference.completion import MAX_SAMPLES
from simplepcfg.inference.run import load

CONLLU = "# text = the dog\n1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\tdog\tdog\tNOUN\tNN\t_\t0\troot\t_\t_\n"


@pytest.mark.parametrize("command", ["parse", "score"])
def test_of_conllu_the_words_are_read(call: Call, tiny_run: Path, tmp_path: Path, command: str) -> None:
    """Its columns were once taken for words: by its name in a file, by its columns from standard input."""
    file = tmp_path / "file.conllu"
    file.write_text(CONLLU)
    plain = call(command, tiny_run, stdin="the dog\n")
    assert plain.code == 0
    assert call(command, tiny_run, file).out == plain.out
    assert call(command, tiny_run, stdin=CONLLU).out == plain.out


def test_of_conllu_the_words_are_evaluated(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(CONLLU)
    (plain,) = json.loads(call("evaluate", tiny_run, "-", "--json", "-", stdin="the dog\n").out)
    found, *baselines = json.loads(call("evaluate", tiny_run, tmp_path / "train.txt", "--json", "-").out)
    assert found["perplexity"] == plain["perplexity"]
    assert [system["name"] for system in baselines] == ["left-branching", "right-branching", "random"]  # it has heads


@pytest.mark.parametrize("options", [["score"], ["score", "--surprisal"], ["parse"]])
def test_unknown_words_are_mentioned(call: Call, tiny_run: Path, options: list[str]) -> None:
    result = call(options[0], tiny_run, *options[1:], stdin="the Zyzzyva followed the dog .\nthe Zyzzyva\n")
    assert result.code == 0
    assert "not in the vocabulary, hence <unk>: 2 of 7 words (28.6 %): Zyzzyva" in result.err
    assert "vocabulary" not in call(options[0], tiny_run, *options[1:], stdin="the dog followed the cat .\n").err
    assert call(options[0], tiny_run, *options[1:], "--quiet", stdin="the Zyzzyva followed the dog .\n").err == ""


def test_several_predictions_are_columns(call: Call, trees_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.trees"
    other.write_text(trees_file.read_text())
    result = call("evaluate", "--predictions", trees_file, "--predictions", other, trees_file, "--json", "-")
    assert [report["name"] for report in json.loads(result.out)] == [str(trees_file), str(other)]
    twice = call("evaluate", "--predictions", other, "--predictions", other, trees_file)
    assert (twice.code, twice.err.count("\n")) == (2, 1)
    assert "is given twice" in twice.err


@pytest.mark.parametrize("command", ["score", "parse"])
def test_a_line_too_long_does_not_end_the_job(
    call: Call, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    file = tmp_path / "file.txt"
    pairs = 60_000 if command == "score" else 600
    file.write_text("the dog followed the cat\n\n" + "the dog " * pairs + "\nthe dog\n")
    for options in ([], ["--max-words", "200000"]) if command == "score" else (["--max-words", "1000"],):
        result = call(command, tiny_run, file, *options)
        assert (result.code, len(result.lines)) == (0, 4)
        assert result.lines[2] == ("NA" if command == "score" else "(X" + " (T the) (T dog)" * pairs + ")")
        assert result.lines[3] == call(command, tiny_run, stdin="the dog\n").lines[0]
        assert re.search(r"longer than \d+ words, not computed: 1 sentence \(.*file.txt:3\)", result.err)
    if command == "score":
        result = call(command, tiny_run, file, "--surprisal", "--max-words", "5")
        assert (result.code, result.lines[7].split("\t")[3:]) == (0, ["NA"] * 4)
        monkeypatch.setattr(batched, "SURELY_FITS", 1)
        with pytest.raises(ResourceError, match=r"sentence 1 \('the dog the"):
            load(tiny_run).score(["the dog", "the dog " * 60_000])


def test_test_trees_alone_are_told_as_such(call: Call, trees_file: Path, tmp_path: Path) -> None:
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / "test.trees").write_text(trees_file.read_text())
    result = call("prepare", "brackets", tmp_path / "bank", "--out", tmp_path / "out")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "by their names, all files are test; a vocabulary is made from training text" in result.err


# Each command in a fork of one process, to its very end, since importing torch takes longer than all the rest.
# The last one writes into a pipe that nobody reads.
COMMANDS = """
import gc, json, os, sys
from simplepcfg.__main__ import main
import simplepcfg.cli.main, simplepcfg.inference.run, simplepcfg.evaluation.baselines
gc.freeze()
read, closed = os.pipe()
os.close(read)
for number, arguments in enumerate(asked := json.loads(sys.argv[1]), 1):
    if not (child := os.fork()):
        if number == len(asked):
            os.dup2(closed, 1)
            sys.stdout = os.fdopen(1, "w")
        sys.argv[1:] = arguments
        sys.exit(main())
    print("exit code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=sys.stderr)
"""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full disk")
def test_a_full_disk_is_named_and_a_closed_pipe_is_quiet(tiny_run: Path, text_file: Path, trees_file: Path) -> None:
    asked = [["parse", str(tiny_run), str(text_file), "--quiet"], ["evaluate", "random", str(trees_file), "--quiet"]]
    asked.append(["score", str(tiny_run), str(text_file), "--quiet"])
    command = [sys.executable, "-c", COMMANDS, json.dumps(asked)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=150, check=False)
    named = "simplepcfg: standard output: No space left on device\nexit code 4\n"
    assert done.stderr == named + named + "exit code 141\n"


def test_a_full_disk_in_prepare_names_the_file(
    call: Call, trees_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from simplepcfg.data import preparation

    class Full(io.StringIO):
        name = ""

        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    def full(path: Path) -> Full:
        stream = Full()
        stream.name = str(path)
        return stream

    monkeypatch.setattr(preparation, "_new_file", full)
    result = call("prepare", "brackets", trees_file, "--out", tmp_path / "out")
    assert result.code == 4
    assert result.err == f"simplepcfg: {tmp_path / 'out' / 'train.txt'}: No space left on device\n"
    assert not (tmp_path / "out").exists()


def test_surprisal_can_be_read_with_quotation_marks_in_it(call: Call, eos_run: Path) -> None:
    words = ['"', "the", '"dog"', "5'2\""]
    result = call("score", eos_run, "--surprisal", stdin=" ".join(words) + "\nthe dog\n")
    rows = list(csv.reader(io.StringIO(result.out), delimiter="\t"))  # by the rules of pandas.read_csv(sep="\t")
    assert {len(row) for row in rows} == {7}
    assert [row[2] for row in rows[1:5]] == words
    assert table_row(["a", "b c", ""]) == "a\tb c\t"


def test_absurd_numbers_are_refused(call: Call, tiny_run: Path, text_file: Path) -> None:
    huge = 10**12
    for arguments in (
        ["parse", tiny_run, text_file, "--decode", "viterbi", "--k", huge],
        ["complete", tiny_run, "the", "--samples", huge],
    ):
        result = call(*arguments)
        assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
        assert str(huge) in result.err
    run = load(tiny_run)
    with pytest.raises(InputError, match="samples"):
        run.sample_trees(["the dog"], huge)
    with pytest.raises(InputError, match="samples"):
        run.complete("the", samples=MAX_SAMPLES + 1)
