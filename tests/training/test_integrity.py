"""Damage to any file of a run is found by its checksum, named, and never spreads to an intact file."""

import json
import os
import random
import shutil
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from torch import nn

from damage import KINDS, flip_bits
from simplepcfg import files as files_module
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.files import write_bytes
from simplepcfg.runs.checksums import DamagedFileError
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.runs.tensor_files import (
    assign_weights,
    check_shapes,
    quantised_rows,
    read_tensor_file,
    stored_shapes,
    write_tensor_file,
)
from simplepcfg.training import train
from simplepcfg.training.reporting.progress import Reporter
from toy_runs import differences


@pytest.fixture
def run(whole: RunFolder, tmp_path: Path) -> RunFolder:
    """A copy of a finished run, to be damaged."""
    return RunFolder(Path(shutil.copytree(whole.path, tmp_path / "run")))


def contents(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.path.iterdir()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["model", "checkpoint"])
def test_damaged_tensors_are_found(run: RunFolder, name: str, kind: str) -> None:
    path = getattr(run, name)
    whole = path.read_bytes()
    for seed in range(8):
        path.write_bytes(whole)
        KINDS[kind](path, random.Random(seed))
        with pytest.raises(InputError, match=r"damaged|format|cannot be read"):
            read_tensor_file(path)


def test_a_damaged_checkpoint_changes_nothing(run: RunFolder) -> None:
    flip_bits(run.checkpoint, random.Random(0), 100, start=run.checkpoint.stat().st_size // 2)
    before = contents(run)
    with pytest.raises(DamagedFileError, match=r"checkpoint.*checksum.*model\.safetensors, .* is intact"):
        train(None, run.path, resume=True)
    assert contents(run) == before
    load_run(run.path, "cpu")


def test_a_loaded_model_does_not_depend_on_its_file(run: RunFolder) -> None:
    weights = load_run(run.path, "cpu").model.state_dict()
    before = {name: weight.clone() for name, weight in weights.items()}
    with open(run.model, "r+b") as file:  # in place, as `cp` does
        file.seek(run.model.stat().st_size // 2)
        file.write(bytes(1000))
    assert all(torch.equal(before[name], weight) for name, weight in weights.items())


def test_a_damaged_model_is_written_again_from_the_checkpoint(run: RunFolder, whole: RunFolder) -> None:
    flip_bits(run.model, random.Random(0), 1, start=run.model.stat().st_size // 2)
    with pytest.raises(DamagedFileError, match=r"model\.safetensors: damaged .*train --resume .* writes the model"):
        load_run(run.path, "cpu")
    train(None, run.path, resume=True)
    assert differences(whole, run) == []


def test_both_damaged(run: RunFolder) -> None:
    for path in (run.model, run.checkpoint):
        flip_bits(path, random.Random(0), 1, start=path.stat().st_size // 2)
    for attempt in (lambda: load_run(run.path, "cpu"), lambda: train(None, run.path, resume=True)):
        with pytest.raises(DamagedFileError, match="restore it from a copy"):
            attempt()


def test_damaged_words(run: RunFolder) -> None:
    run.vocabulary.write_text(run.vocabulary.read_text("utf-8").replace("dog", "dug"), "utf-8")
    for attempt in (lambda: load_run(run.path, "cpu"), lambda: train(None, run.path, resume=True)):
        with pytest.raises(DamagedFileError, match=r"vocabulary\.txt: damaged \(these are not the words"):
            attempt()


def test_damaged_configuration(run: RunFolder) -> None:
    text = run.config.read_text("utf-8")
    assert text.startswith("# crc32 of the lines below: ")
    run.config.write_text(text.replace("learning_rate = 0.00", "learning_rate = 0.01"), "utf-8")
    for attempt in (lambda: load_run(run.path, "cpu"), lambda: train(None, run.path, resume=True)):
        with pytest.raises(DamagedFileError, match=r"config\.toml: damaged .*on purpose, delete its first line"):
            attempt()
    run.config.write_text("".join(run.config.read_text("utf-8").splitlines(keepends=True)[1:]), "utf-8")
    load_run(run.path, "cpu")


def test_other_line_ends_are_no_damage(run: RunFolder) -> None:
    for path in (run.config, run.vocabulary):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    load_run(run.path, "cpu")


def test_a_configuration_cut_off_anywhere_is_found(run: RunFolder) -> None:
    content = run.config.read_bytes()
    for size in range(0, len(content), 7):
        run.config.write_bytes(content[:size])
        with pytest.raises(DamagedFileError, match=r"config\.toml: damaged"):
            run.read_config()


def test_a_lost_checksum_of_facts(run: RunFolder) -> None:
    run.facts.write_text(run.facts.read_text("utf-8").replace('"crc32"', '"crc3r"'), "utf-8")
    with pytest.raises(DamagedFileError, match=r"run\.json: damaged"):
        train(None, run.path, resume=True)


def test_damaged_facts(run: RunFolder) -> None:
    run.facts.write_text(run.facts.read_text("utf-8").replace('"seed": 0', '"seed": 1'), "utf-8")
    with pytest.raises(DamagedFileError, match=r"run\.json: damaged"):
        train(None, run.path, resume=True)


def test_damaged_metrics_are_told_and_stop_nothing(run: RunFolder) -> None:
    said: list[str] = []

    class Noting(Reporter):
        def note(self, text: str) -> None:
            said.append(text)

    train(None, run.path, resume=True, reporter=Noting())
    assert not [text for text in said if "metrics" in text]
    flip_bits(run.metrics, random.Random(0), 1)
    train(None, run.path, resume=True, reporter=Noting())
    assert [text for text in said if "metrics.jsonl: is not what the run wrote" in text]


@pytest.mark.parametrize("later", ["run.json", "model.safetensors"])
def test_a_later_format_is_refused_by_name(run: RunFolder, later: str) -> None:
    if later == "run.json":
        facts = json.loads(run.facts.read_text("utf-8"))
        del facts["crc32"]
        run.facts.write_text(json.dumps(facts | {"format": 7}), "utf-8")
        with pytest.raises(InputError, match=r"a run of format 7, of simplepcfg .* upgrade"):
            train(None, run.path, resume=True)
        return
    tensors, record, *_ = read_tensor_file(run.model)
    run.model.write_bytes(save(tensors, metadata={"format": "simplepcfg-7", "record": json.dumps(record)}))
    with pytest.raises(InputError, match=r'format "simplepcfg-7" instead of "simplepcfg-1"; a later version'):
        load_run(run.path, "cpu")


@pytest.mark.parametrize("name", ["model", "checkpoint", "facts"])
def test_a_file_without_a_checksum_is_refused(run: RunFolder, name: str) -> None:
    path = getattr(run, name)
    if name == "facts":
        facts = json.loads(path.read_text("utf-8"))
        del facts["crc32"]
        path.write_text(json.dumps(facts), "utf-8")
    else:
        tensors, record, *_ = read_tensor_file(path)
        path.write_bytes(save(tensors, metadata={"format": "simplepcfg-1", "record": json.dumps(record)}))
        with pytest.raises(DamagedFileError, match=r"checksum None of an unknown kind"):
            read_tensor_file(path)
    if name == "model":  # it is written again from the checkpoint
        train(None, run.path, resume=True)
        load_run(run.path, "cpu")
    else:
        with pytest.raises(DamagedFileError, match=f"{path.name}: damaged"):
            train(None, run.path, resume=True)


def test_a_file_that_reads_back_otherwise_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")
    monkeypatch.setattr(files_module, "crc32_of_file", lambda path: 0)
    with pytest.raises(OSError, match="could not be read back"):
        write_bytes(path, b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]


def test_cut_off_at_every_byte_of_the_last_kilobyte(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    write_tensor_file(path, {"a": torch.randn(20, 30)}, {"epoch": 1}, vocabulary="01234567")
    content = path.read_bytes()
    for size in range(len(content) - 1024, len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(DamagedFileError):
            read_tensor_file(path)


def with_header(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 7,
        b"\xff" * 8,
        struct.pack("<Q", 10**12) + b"{}",
        struct.pack("<Q", 99_999_999) + b"{}",
        with_header({"symbols": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}),
        with_header({"symbols": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 0]}}),
        with_header({"symbols": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}, b"\0" * 15),
        with_header({"__metadata__": {"format": "simplepcfg-1", "record": "[" * 100_000}}),
        with_header({"__metadata__": {"format": "simplepcfg-1", "record": "3"}}),
        with_header({"__metadata__": {"format": "simplepcfg-1"}}),
        with_header(b"[" * 100_000),
        with_header(b'{"a": 1'),
        b"\x80\x04\x95" + b"(cos\nsystem\n" * 10,
    ],
)
def test_hostile_tensor_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_tensor_file(path)


def test_absurd_sizes_are_refused_before_memory_is_taken(run: RunFolder) -> None:
    text = run.config.read_text("utf-8").replace("\nnonterminals = 4\n", "\nnonterminals = 1000000\n")
    run.config.write_text("".join(text.splitlines(keepends=True)[1:]), "utf-8")
    with pytest.raises(InputError, match="belongs to another configuration"):
        load_run(run.path, "cpu")


def test_links_out_of_a_run_are_not_followed(run: RunFolder, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere.txt"
    os.replace(run.vocabulary, outside)
    run.vocabulary.symlink_to(outside)
    with pytest.raises(InputError, match=r"vocabulary\.txt: is a link out of the run folder, to .*elsewhere"):
        load_run(run.path, "cpu")


def test_links_within_the_cache_of_a_hub_are_followed(run: RunFolder, tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "models--a--b" / "blobs", tmp_path / "models--a--b" / "snapshots" / "0123"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for path in (run.config, run.vocabulary, run.model):
        os.replace(path, blobs / path.name)
        (snapshot / path.name).symlink_to(Path("..", "..", "blobs", path.name))
    load_run(snapshot, "cpu")


def test_a_linked_run_folder_is_followed(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(run.path)
    load_run(tmp_path / "latest", "cpu")


def test_the_checksum_of_words_depends_on_their_order() -> None:
    one, other = Vocabulary(["<pad>", "<unk>", "a", "b"]), Vocabulary(["<pad>", "<unk>", "b", "a"])
    assert one.checksum != other.checksum


def test_rows_in_int8_come_back_within_half_a_step_of_each_row(tmp_path: Path) -> None:
    with torch.device("meta"):
        empty = nn.Linear(8, 5)
    weight = torch.randn(5, 8) * torch.tensor([[1e-3], [1.0], [100.0], [1e-6], [0.0]])
    stored = {**quantised_rows("weight", weight), "bias": torch.ones(5, dtype=torch.bfloat16)}
    write_tensor_file(tmp_path / "weights.safetensors", stored, {})
    check_shapes(empty, stored_shapes(tmp_path / "weights.safetensors"), tmp_path)
    assign_weights(empty, read_tensor_file(tmp_path / "weights.safetensors")[0], tmp_path)
    assert ((empty.weight - weight).abs() <= weight.abs().amax(-1, keepdim=True) / 254 * 1.001).all()
    assert empty.bias.dtype == torch.float32
