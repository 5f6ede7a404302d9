"""Long jobs: what is printed when, what an interruption leaves, and where sentences come from."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas
import pytest
from safetensors.torch import load_file

from command_calls import Call
from simplepcfg.inference import batches
from simplepcfg.inference.run import Run


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BLOCK_WORK", {"cpu": 1.0})
    monkeypatch.setattr(batches, "LEAST_IN_A_BLOCK", 3)


@pytest.mark.parametrize("command", [["parse"], ["score"], ["score", "--surprisal"], ["parse", "--format", "columns"]])
def test_an_interruption_leaves_what_was_done(
    call: Call,
    tiny_run: Path,
    text_file: Path,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    small_chunks: None,
) -> None:
    whole = call(*command, tiny_run, text_file).out
    name = {"parse": "parse_spans", "score": "score"}[command[0]] if command[-1] != "--surprisal" else "surprisal"
    original, calls = getattr(Run, name), []

    def interrupted(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Run, name, interrupted)
        result = call(*command, tiny_run, text_file)
    assert result.code == 130
    assert "interrupted after 6 sentences; with --out DIR, the same command goes on" in result.err
    assert result.out
    assert whole.startswith(result.out)


def test_ctrl_c_by_a_signal(tiny_run: Path, tmp_path: Path) -> None:
    """The first lines are in the file while the job goes on, and are left there by Ctrl-C."""
    slow = "import time\nfrom simplepcfg.inference import batches\nfrom simplepcfg.inference.run import Run\n"
    slow += "batches.BLOCK_WORK, batches.LEAST_IN_A_BLOCK = {'cpu': 1.0}, 2\noriginal = Run.parse_spans\n"
    slow += "Run.parse_spans = lambda *given, **rest: (time.sleep(0.3), original(*given, **rest))[1]\n"
    slow += "import sys\nfrom simplepcfg.cli.main import run\nsys.exit(run(sys.argv[1:]))\n"
    text, out = tmp_path / "text.txt", tmp_path / "out.trees"
    text.write_text("the dog sees a cat\n" * 400)
    command = [sys.executable, "-c", slow, "parse", str(tiny_run), str(text)]
    with out.open("w") as stream:
        job = subprocess.Popen(
            command,
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        deadline = time.monotonic() + 150
        while out.stat().st_size == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(job.pid, signal.SIGINT)
        _, err = job.communicate(timeout=150)
    lines = out.read_text().splitlines()
    assert job.returncode == 130
    assert 0 < len(lines) < 400
    assert "sentences; with --out DIR, the same command goes on" in err


def test_how_far_a_file_is(call: Call, tiny_run: Path, text_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simplepcfg.cli import progress

    monkeypatch.setattr(progress, "SECONDS_BEFORE", 0.05)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN", (0.05,))
    monkeypatch.setattr(progress, "TICK", 0.01)
    monkeypatch.setattr(batches, "BLOCK_WORK", {"cpu": 1.0})
    original = Run.score
    monkeypatch.setattr(Run, "score", lambda *given: (time.sleep(0.2), original(*given))[1])
    result = call("score", tiny_run, text_file)
    assert f"scoring {text_file} …" in result.err or f"scoring {text_file}: " in result.err
    assert " %, about 0:0" in result.err


def test_several_files_folders_and_patterns(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    (folder / ".hidden").write_text("a b c\n")
    (folder / "a.txt").write_text("the dog sees a cat\n")
    with gzip.open(folder / "more" / "b.txt.gz", "wt") as stream:
        stream.write("a cat sleeps\n\n")
    (folder / "c.trees").write_text("(S (NP (DT a) (NN dog)) (VP (VBZ sleeps)))\n")
    one_by_one = [
        line for name in ("a.txt", "c.trees", "more/b.txt.gz") for line in call("parse", tiny_run, folder / name).lines
    ]
    assert call("parse", tiny_run, folder).lines == one_by_one
    assert call("parse", tiny_run, folder / "a.txt", folder / "c.trees", folder / "more").lines == one_by_one
    assert call("parse", tiny_run, f"{folder}/**/*.*").lines == one_by_one
    table = call("score", tiny_run, folder, "--surprisal").out
    frame = pandas.read_csv(io.StringIO(table), sep="\t", keep_default_na=False)
    assert frame.groupby("file")["word"].count().to_dict() == {
        str(folder / "a.txt"): 6,
        str(folder / "c.trees"): 4,
        str(folder / "more" / "b.txt.gz"): 4,
    }
    for missing, named in (
        (tmp_path / "none" / "*.txt", "no file has such a name"),
        (tmp_path / "empty", "a folder without files"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        refused = call("parse", tiny_run, missing)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert named in refused.err


CONLLU = """# sent_id = doc-1
# text = The dog sleeps.
1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_
2\tdog\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tsleeps\t_\tVERB\t_\t_\t0\troot\t_\t_
4\t.\t_\tPUNCT\t_\t_\t3\tpunct\t_\t_

"""


def test_ids_and_offsets_of_conllu(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.conllu"
    path.write_text(CONLLU)
    table = call("score", tiny_run, path, "--surprisal", "--offsets").out
    frame = pandas.read_csv(io.StringIO(table), sep="\t")
    assert list(frame["sent_id"]) == ["doc-1"] * 5
    assert frame["start"].tolist()[:4] == [0, 4, 8, 14]
    assert frame["end"].tolist()[:4] == [3, 7, 14, 15]
    (shown,) = map(json.loads, call("parse", tiny_run, path, "--format", "json", "--offsets").lines)
    assert (shown["sent_id"], shown["offsets"]) == ("doc-1", [[0, 3], [4, 7], [8, 14], [14, 15]])
    columns = call("parse", tiny_run, path, "--format", "columns").lines
    assert [line.split("\t")[-1] for line in columns[:4]] == ["doc-1"] * 4


@pytest.mark.parametrize("raw", [True, False])
def test_offsets_are_those_of_the_text(call: Call, tiny_run: Path, tmp_path: Path, raw: bool) -> None:
    text = 'She didn’t go . . . “Why?”\n\nThe  dog\tsleeps\nall day. A "cat" sees it.\n'
    path = tmp_path / "text.txt"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    options = ["--raw"] if raw else []
    table = call("score", tiny_run, path, "--surprisal", "--offsets", *options).out
    frame = pandas.read_csv(io.StringIO(table), sep="\t", keep_default_na=False)
    words = frame[frame["word"] != "<end>"]
    for word, start, end in words[["word", "start", "end"]].itertuples(index=False):
        assert "".join(text[int(start) : int(end)].split()) == word
    assert "".join(words["word"]) == "".join(text.split())


def test_offsets_need_a_table(call: Call, tiny_run: Path) -> None:
    for command in (["parse", tiny_run], ["score", tiny_run]):
        refused = call(*command, "--offsets", stdin="a b\n")
        assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_pandas_reads_every_row_of_columns(call: Call, tiny_run: Path) -> None:
    sentences = [['"', "the", "dog", '"'], ["5'2\"", "dogs"], ["a", "cat's", "#1"]]
    text = "".join(" ".join(words) + "\n" for words in sentences)
    out = call("parse", tiny_run, "--format", "columns", stdin=text).out
    frame = pandas.read_csv(io.StringIO(out), sep="\t", header=None)
    assert list(frame[1]) == [word for words in sentences for word in words]


@pytest.mark.parametrize("ending", [".csv", ".CSV.gz"])
def test_a_table_is_no_text(call: Call, tiny_run: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"table{ending}"
    content = b"id,sentence\n1,the dog sees a cat\n"
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    for command in ("parse", "score"):
        refused = call(command, tiny_run, path)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert "is a table" in refused.err
    assert call("evaluate", tiny_run, path).code == 2


def test_lines_that_end_in_carriage_returns(call: Call, tiny_run: Path) -> None:
    expected = call("parse", tiny_run, stdin="the dog sees a cat\na cat sleeps\n\nthe dog\n").out
    assert call("parse", tiny_run, stdin="the dog sees a cat\ra cat sleeps\r\rthe dog\r").out == expected
    assert call("parse", tiny_run, stdin="the dog sees a cat\r\na cat sleeps\r\n\r\nthe dog\r\n").out == expected


def test_training_on_a_folder_a_pattern_or_several_files(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("The dog sees a cat.\n" * 8)
    with gzip.open(folder / "b.txt.gz", "wt") as stream:
        stream.write("A cat sleeps.\n" * 8)
    both = tmp_path / "both.txt"
    both.write_text("The dog sees a cat.\n" * 8 + "A cat sleeps.\n" * 8)
    sizes = ["model.nonterminals=2", "model.preterminals=4", "model.embedding=4", "training.epochs=1"]
    settings = [part for size in sizes for part in ("--set", size)]
    models = []
    for number, texts in enumerate(([both], [folder], [folder / "*.txt*"], [folder / "a.txt", folder / "b.*"])):
        out = tmp_path / f"run{number}"
        result = call("train", "sn-pcfg-small", *(f"--train={text}" for text in texts), "--out", out, *settings)
        assert result.code == 0, result.err
        assert "; --raw splits it into sentences and words" in result.err
        models.append(load_file(out / "model.safetensors"))
    assert all(models[0][name].equal(model[name]) for model in models for name in model)
    for number in (2, 3):
        assert call("show", tmp_path / f"run{number}", "--quiet").lines[0] == "expected uses over 16 sentences"
    again = call("train", "--resume", tmp_path / "run3", "--set", "training.epochs=2")
    assert again.code == 0, again.err


def test_the_files_of_a_folder_are_told(call: Call, tiny_run: Path, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("the dog sees a cat\n")
    assert f"2 files: {tmp_path / 'a.txt'}, {tmp_path / 'b.txt'}\n" in call("parse", tiny_run, tmp_path).err
    assert "files" not in call("parse", tiny_run, tmp_path / "a.txt", tmp_path / "b.txt").err


def test_a_misspelt_option_has_one_suggestion(call: Call) -> None:
    assert "no such option: --fromat (did you mean --format?); see" in call("parse", "english", "--fromat", "json").err
    assert "no such option: --zzz; see" in call("parse", "english", "--zzz").err
