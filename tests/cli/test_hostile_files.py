"""Files that somebody made to do harm: each is refused in one line, in time, and nothing else is read or changed."""

import gzip
import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from attacks.fuzz_targets import limited
from command_calls import Call, Outcome
from simplepcfg.plans.jobs import PREPARED_KEYS, _prepared_settings
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training.teachers import TeacherMarginals

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")


@pytest.fixture(scope="module")
def resumable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from simplepcfg.runs.config.files import load_config
    from simplepcfg.training.start import train
    from tiny_runs import SETTINGS, tiny_sentences

    folder = tmp_path_factory.mktemp("hostile")
    (folder / "train.txt").write_text("\n".join(tiny_sentences(40)) + "\n")
    config = load_config("sn-pcfg-small", [*SETTINGS, f'data.train="{folder}/train.txt"'], environment={})
    train(config, folder / "run")
    return folder / "run"


@pytest.fixture
def run(resumable: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(resumable, tmp_path / "run")))


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    with limited():
        yield


def refused(outcome: Outcome, *parts: str, code: int = 2) -> None:
    assert outcome.code == code, outcome.err
    assert outcome.out == ""
    (line,) = outcome.err.splitlines()
    assert line.startswith("simplepcfg: ")
    assert all(part in line for part in parts), line


NEEDED = ["config.toml", "vocabulary.txt", "model.safetensors"]
WRITTEN = [
    "run.json",
    "checkpoint.safetensors",
    "metrics.jsonl",
    "timings.jsonl",
    "skipped.jsonl",
    "teacher.safetensors",
]


@pytest.mark.parametrize("name", [*NEEDED, *WRITTEN])
@pytest.mark.parametrize("kind", ["pipe", "device", "link", "broken link"])
def test_what_is_no_file_of_the_run(
    call: Call, run: RunFolder, text_file: Path, tmp_path: Path, name: str, kind: str
) -> None:
    """Resuming refuses each, since it appends to some and waits for others; parsing those that it reads."""
    outside = tmp_path / "outside"
    file = run.path / name
    content = file.read_bytes() if file.exists() else b"a diary\n"
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.symlink_to(outside)
    if kind == "link":
        outside.write_bytes(content)
    refused(call("train", "--resume", run.path, "--set", "training.epochs=2"), name)
    if name in NEEDED:
        refused(call("parse", run.path, text_file), name)
    assert outside.exists() == (kind == "link")
    assert kind != "link" or outside.read_bytes() == content


@pytest.mark.parametrize("name", ["metrics.jsonl", "timings.jsonl", "run.json"])
def test_a_report_does_not_wait_for_pipes(call: Call, run: RunFolder, tmp_path: Path, name: str) -> None:
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    assert call("report", run.path, "--out", tmp_path / "report.html").code == 0


def test_a_new_run_is_not_written_through_links(call: Call, text_file: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "metrics.jsonl").symlink_to(tmp_path / "outside")
    outcome = call("train", "sn-pcfg-small", "--train", text_file, "--out", tmp_path / "new")
    refused(outcome, "metrics.jsonl: is a link out of the run folder")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("target", ["../../../other/blobs/secret", "/etc/passwd"])
def test_links_out_of_the_cache_of_a_hub(
    call: Call, run: RunFolder, text_file: Path, tmp_path: Path, target: str
) -> None:
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0123"
    snapshot.parent.mkdir(parents=True)
    os.replace(run.path, snapshot)
    (tmp_path / "other" / "blobs").mkdir(parents=True)
    os.replace(snapshot / "vocabulary.txt", tmp_path / "other" / "blobs" / "secret")
    (snapshot / "vocabulary.txt").symlink_to(target)
    refused(call("parse", snapshot, text_file), "vocabulary.txt: is a link out of the run folder, to ")


def test_paths_in_a_prepared_folder_are_not_followed(tmp_path: Path) -> None:
    """Of its description only settings of reading are taken, none of which is a path."""
    (tmp_path / "prepared.toml").write_text(
        '[data]\ntrain = "../../secret"\nvalid = "/etc/passwd"\nlowercase = true\n[sha256]\n"../../secret" = "00"\n'
    )
    assert _prepared_settings(tmp_path / "prepared.toml") == ("data.lowercase=true",)
    assert not {"train", "valid"} & set(PREPARED_KEYS)


def test_a_reproduction_is_not_appended_to_through_links(call: Call, text_file: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    for folder in (data, out):
        folder.mkdir()
    for name in ("train", "valid", "test"):
        shutil.copy(text_file, data / f"{name}.txt")
    (tmp_path / "diary").write_text("dear diary")
    (out / "results.jsonl").symlink_to(tmp_path / "diary")
    outcome = call("reproduce", "lm", "--data", data, "--out", out, "--rows", "sn-pcfg-4096")
    refused(outcome, "results.jsonl: is a link out of the folder")
    assert (tmp_path / "diary").read_text() == "dear diary"


def header_claiming(parameters: int) -> bytes:
    header = {
        "__metadata__": {"format": "simplepcfg-1", "record": "{}"},
        "symbols": {"dtype": "F32", "shape": [parameters], "data_offsets": [0, 4 * parameters]},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize("has_holes", [False, True])
def test_a_trillion_parameters(call: Call, run: RunFolder, text_file: Path, has_holes: bool) -> None:
    """Whether the file is as short as it is, or has the size that its header claims and no content."""
    for file in (run.model, run.checkpoint):
        file.write_bytes(header_claiming(10**12))
        if has_holes:
            try:
                os.truncate(file, file.stat().st_size + 4 * 10**12)
            except OSError:
                pytest.skip("this file system has no files of that size")
    code = 4 if has_holes else 2
    refused(call("parse", run.path, text_file), "model.safetensors", code=code)
    refused(call("train", "--resume", run.path, "--set", "training.epochs=2"), "checkpoint.safetensors", code=code)


class Payload:
    """Unpickling it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.path),)


def pickles(path: Path) -> dict[str, bytes]:
    """As a plain pickle, as torch saves one in a zip archive, and inside a file that safetensors reads."""
    plain = pickle.dumps(Payload(path))
    stream, archive = io.BytesIO(), io.BytesIO()
    torch.save({"weights": Payload(path)}, stream)
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("archive/data.pkl", plain)
    header = json.dumps({"__metadata__": {"format": "simplepcfg-1", "record": plain.hex()}}).encode()
    return {
        "pickle": plain,
        "torch": stream.getvalue(),
        "zip": archive.getvalue(),
        "record": struct.pack("<Q", len(header)) + header,
    }


@pytest.mark.parametrize("kind", ["pickle", "torch", "zip", "record"])
def test_checkpoints_that_are_pickles(call: Call, run: RunFolder, text_file: Path, tmp_path: Path, kind: str) -> None:
    content = pickles(tmp_path / "it-was-run")[kind]
    for file in (run.model, run.checkpoint, run.teacher):
        file.write_bytes(content)
    refused(call("parse", run.path, text_file), "model.safetensors")
    refused(call("train", "--resume", run.path, "--set", "training.epochs=2"), "checkpoint.safetensors")
    with pytest.raises(Exception, match=r"teacher\.safetensors") as caught:
        TeacherMarginals.load(run.teacher, [3], {})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "it-was-run").exists()


def test_no_module_unpickles_or_evaluates() -> None:
    source = Path(__file__).parents[2] / "src" / "simplepcfg"
    words = ("import pickle", "torch.load(", "marshal", "shelve", " eval(", " exec(", "yaml.load", "weights_only=False")
    found = [(path.name, word) for path in source.rglob("*.py") for word in words if word in path.read_text("utf-8")]
    assert found == []


@pytest.mark.parametrize("line", [b"the dog sees the cat\n", b"\n"])
def test_a_bomb_ends_in_one_line(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr("simplepcfg.data.readers.LEAST_EXPANDED_BYTES", 100_000)
    bomb, new = tmp_path / "bomb.gz", tmp_path / "new"
    with gzip.open(bomb, "wb") as stream:
        stream.write(line * (2_000_000 // len(line)))
    refused(call("train", "sn-pcfg-small", "--train", bomb, "--out", new), "expands to more than 200 times its size")
    assert not new.exists()


def test_devices_have_no_end(call: Call, run: RunFolder, text_file: Path) -> None:
    outcome = call("parse", run.path, text_file, "--labels", "/dev/zero")
    assert outcome.code == 2
    assert "/dev/zero" in outcome.err.splitlines()[-1]


def test_a_pipe_is_no_run(call: Call, text_file: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for command in ("parse", "score", "show", "evaluate"):
        refused(call(command, tmp_path / "pipe", text_file), "pipe: no such run folder")
