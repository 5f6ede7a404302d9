"""A corpus answered in parts: the same answers as one output has, whatever is killed, and nothing mixed."""

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg.cli.answers import answer_corpus
from simplepcfg.cli.parse import ParseRequest, prepare
from simplepcfg.cli.sentence_stream import Answer
from simplepcfg.errors import ResourceError
from tiny_runs import make_tiny_run, tiny_sentences


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, one of them compressed and one empty; the order of the names is that of the sentences."""
    folder = tmp_path_factory.mktemp("corpus")
    sentences = [*tiny_sentences(40, seed=5), ""]
    (folder / "b").mkdir()
    with gzip.open(folder / "a.txt.gz", "wt") as stream:
        stream.writelines(sentence + "\n" for sentence in sentences[:25])
    (folder / "b" / "a.txt").write_text("".join(sentence + "\n" for sentence in sentences[25:]))
    (folder / "empty.txt").write_text("")
    return folder


def _answers(folder: Path) -> dict[str, bytes]:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != "settings.json")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def _text(answers: dict[str, bytes]) -> str:
    return "".join((gzip.decompress(data) if name.endswith(".gz") else data).decode() for name, data in answers.items())


@pytest.mark.parametrize(
    ("command", "suffix"), [(["parse"], ".trees"), (["score"], ".scores"), (["score", "--surprisal"], ".tsv")]
)
def test_parts_have_the_answers_of_one_output(
    call: Call, tiny_run: Path, corpus: Path, tmp_path: Path, command: list[str], suffix: str
) -> None:
    asked = [*command, tiny_run, corpus, "--out", tmp_path / "out", "--part-size", 10]
    jobs = [] if command == ["parse"] else ["--jobs", 1]  # processes start slowly, and parse alone shows them
    first = call(*asked, "--shard", "2/2", *jobs)
    assert (first.code, first.out) == (0, "")
    assert "3 parts written\n" in first.err
    assert call(*asked, "--jobs", 1).err.endswith("3 parts written, 3 parts there before\n")
    answers = _answers(tmp_path / "out")
    numbered = [f"a.00000{number}{suffix}.gz" for number in (1, 2, 3)]
    assert list(answers) == [*numbered, f"b/a.000001{suffix}", f"b/a.000002{suffix}", f"empty{suffix}"]
    whole = call(*command, tiny_run, corpus / "a.txt.gz", corpus / "b" / "a.txt", "-q").out
    if suffix == ".tsv":  # each part has the header, sentences count from 1 in each file, and none has a column for it
        rows = _text(answers).splitlines()
        assert {line for line in rows if line.startswith("sentence\t")} == {rows[0]}
        words = [line.split("\t")[2] for line in rows if not line.startswith("sentence\t")]
        assert words == [line.split("\t")[2] for line in whole.splitlines()[1:]]
        assert gzip.decompress(answers["a.000003.tsv.gz"]).decode().splitlines()[1].startswith("21\t1\t")
    else:
        assert _text(answers) == whole


def test_a_part_that_is_lost_is_written_again_and_no_other(
    call: Call, tiny_run: Path, corpus: Path, tmp_path: Path
) -> None:
    asked = ["parse", tiny_run, corpus, "--out", tmp_path, "--part-size", 10, "--format", "json", "--jobs", 1]
    call(*asked)
    answers = _answers(tmp_path)
    times = {name: (tmp_path / name).stat().st_mtime_ns for name in answers}
    lost = "a.000002.jsonl.gz"
    (tmp_path / lost).rename(tmp_path / f"{lost}.7-0.writing")  # as a process that was killed leaves it
    assert "1 part written, 5 parts there before" in call(*asked).err
    assert _answers(tmp_path) == answers
    assert [name for name, when in times.items() if (tmp_path / name).stat().st_mtime_ns != when] == [lost]


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_kills_at_random_moments_change_nothing(call: Call, tiny_run: Path, tmp_path: Path, kills: int) -> None:
    corpus = tmp_path / "text.txt.gz"
    with gzip.open(corpus, "wt") as stream:
        stream.writelines(sentence + "\n" for sentence in tiny_sentences(1600, seed=6))
    asked = ["parse", tiny_run, corpus, "--part-size", 20, "--device", "cpu", "--out"]
    assert call(*asked, tmp_path / "whole", "--jobs", 1).code == 0
    whole, killed = _answers(tmp_path / "whole"), tmp_path / "killed"
    generator = random.Random(0)
    codes, said, command = [], "", [sys.executable, "-m", "simplepcfg", *map(str, asked), str(killed), "--jobs", "2"]
    for kill in range(kills + 1):  # the last time by Ctrl-C
        with subprocess.Popen(
            command,
            start_new_session=True,
            stderr=subprocess.PIPE,
            text=True,
            # A shell's background jobs ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process:
            before = len(list(killed.glob("*.gz")))
            while process.poll() is None and len(list(killed.glob("*.gz"))) <= before:
                time.sleep(0.01)
            time.sleep(generator.random() * 0.05)
            if kill == kills:
                os.killpg(process.pid, signal.SIGINT)
            elif kill % 2:  # all processes at once, or the main one, whose end the others see
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            said = process.communicate()[1]
        codes.append(process.returncode)
    assert codes == [*[-signal.SIGKILL] * kills, 130]
    assert (
        said.splitlines()[-1]
        == "simplepcfg: interrupted; the same command goes on with the parts that are not finished"
    )
    assert call(*asked, killed, "--jobs", 1).code == 0
    assert _answers(killed) == whole


def test_nothing_is_mixed(call: Call, tiny_run: Path, corpus: Path, tmp_path: Path) -> None:
    out, text = tmp_path / "out", tmp_path / "a.txt"
    text.write_text("the dog sees a cat\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.txt").write_text("the cat sees a dog\n")  # of the same name and size
    assert call("parse", tiny_run, text, "--out", out).code == 0

    def refused(*arguments: object) -> str:
        result = call(*arguments, "--out", out)
        assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
        return result.err

    assert "was begun with command = parse, not score" in refused("score", tiny_run, text)
    assert "was begun with decode = mbr, not viterbi" in refused("parse", tiny_run, text, "--decode", "viterbi")
    assert "was begun with part_size = 10000, not 5" in refused("parse", tiny_run, text, "--part-size", 5)
    other = make_tiny_run(tmp_path / "other", "seed=7")
    assert "was begun with other grammars" in refused("parse", other, text)
    assert "lies in --out" in refused("parse", tiny_run, out)
    assert "a.txt: is not what" in refused("parse", tiny_run, tmp_path / "b" / "a.txt")
    text.write_text("the dogs see a cat\nthe cat sleeps\n")
    assert "a.txt: is not what" in refused("parse", tiny_run, text)
    (out / "settings.json").write_text("{")
    assert "damaged" in refused("parse", tiny_run, text)
    (out / "settings.json").unlink()
    assert "holds other files" in refused("parse", tiny_run, text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard", "0/4", "--out", "out"], "--shard 0/4: no part of a job array; give 1/16"),
        (["--shard", "4", "--out", "out"], "--shard 4: no part of a job array"),
        (["--shard", "1/4"], "--shard is for answers in a folder; give --out DIR with it"),
        (["--jobs", "2"], "--jobs is for answers in a folder"),
        (["--part-size", "2"], "--part-size is for answers in a folder"),
        (["--jobs", "2", "--format", "svg"], "--jobs is for answers in a folder; leave out --jobs"),
        (["--out", "out", "--format", "svg"], "--format svg draws one picture"),
        (["--out", "out", "-"], "give files instead of standard input"),
        (["--out", "out", "missing.txt"], "missing.txt: no such file; check the path"),
        (["--out", "out", "text.txt", "text.txt"], "out/text.trees is for another file already"),
        (["--out", "text.txt"], "text.txt: is a file; give a folder"),
        (["--out", "out", "/dev/null"], "/dev/null: is a pipe or a device"),
    ],
)
def test_bad_input_is_one_line(
    call: Call, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("the dog sees a cat\n")
    result = call("parse", tiny_run, *([] if options[-1] in ("-", "text.txt") else ["text.txt"]), *options)
    if options == ["--out", "text.txt"]:
        Path("other.txt").write_text("the dog sees a cat\n")
        result = call("parse", tiny_run, "other.txt", *options)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err


def test_a_damaged_file_leaves_the_parts_before_it(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the dog sees a cat\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"the cat sleeps\n" * 1000)[:-20])
    result = call("parse", tiny_run, tmp_path / "a.txt", tmp_path / "b.txt.gz", "--out", tmp_path / "out", "-q")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "b.txt.gz: not a whole gzip file" in result.err
    assert not (tmp_path / "out" / "b.trees.gz").exists()


@dataclass(frozen=True, kw_only=True)
class DyingRequest(ParseRequest):
    """Of a process that is killed, as for want of memory."""


def die(request: DyingRequest) -> Answer:
    """Die, in every process but the first."""
    if parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return prepare(request)


def test_a_process_that_dies_is_told(tiny_run: Path, text_file: Path, tmp_path: Path) -> None:
    request = DyingRequest(run=str(tiny_run), files=[str(text_file)], out=tmp_path / "out", jobs=2)
    with pytest.raises(ResourceError, match=r"a process has died.*the same command goes on"):
        answer_corpus(request, die, [str(tiny_run)], ".trees", "parsing")
    assert _answers(tmp_path / "out") == {}
