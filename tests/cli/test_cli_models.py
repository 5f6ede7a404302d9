"""The grammar that comes with the package: found by name, whole, small, and usable by every command."""

import shutil
from pathlib import Path

import pytest
import torch
from nltk.tree import Tree

import simplepcfg
from command_calls import Call
from simplepcfg.errors import InputError
from simplepcfg.pretrained import installed, run_directory
from simplepcfg.runs.checksums import DamagedFileError
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.runs.tensor_files import read_tensor_file

MOST_BYTES = 15_000_000


def test_it_is_small_and_checked() -> None:
    folder = RunFolder(installed()["english"])
    assert sum(path.stat().st_size for path in folder.path.iterdir()) <= MOST_BYTES
    found = read_tensor_file(folder.model)
    stored = {tensor.dtype for name, tensor in found.tensors.items() if not name.endswith(".row_scale")}
    assert stored == {torch.bfloat16, torch.int8}
    data = folder.read_config().data
    assert data.tokenize
    assert (data.train, data.valid) == (None, None)  # no path of the machine on which it was trained
    assert folder.read_config().training.start_from is None


def test_a_sentence_as_people_write_it(call: Call) -> None:
    result = call("parse", "english", stdin="The old dog slept by the fire.\nShe didn’t know (at all).\n")
    assert result.code == 0
    first, second = map(Tree.fromstring, result.lines)
    assert first.leaves() == ["The", "old", "dog", "slept", "by", "the", "fire", "."]
    assert second.leaves() == ["She", "did", "n’t", "know", "-LRB-", "at", "all", "-RRB-", "."]
    assert [tag for word, tag in second.pos() if word in ("-LRB-", "-RRB-", ".")] == ["-LRB-", "-RRB-", "."]
    phrases = {" ".join(node.leaves()) for node in first.subtrees()}
    assert {"The old dog", "by the fire"} <= phrases
    assert first[-1].leaves() == ["."]


def test_python_and_the_other_commands(call: Call) -> None:
    run = simplepcfg.load("english")
    assert run.parse(["The cat sat."])[0].leaves() == ["The", "cat", "sat", "."]
    likely, unlikely = run.score(["The man saw the dog.", "The the dog saw man."])
    assert likely > unlikely
    scores = call("score", "english", stdin="The man saw the dog.\n").lines
    assert float(scores[0]) == pytest.approx(likely, abs=1e-5)
    assert len(call("sample", "english", "--count", 2, "--max-length", 10).lines) == 2
    assert call("show", "english", "--top", 2).code == 0


def test_models_lists_it_and_prints_its_card(call: Call) -> None:
    header, row = call("models").lines
    assert header.split("\t")[0] == "name"
    assert row.split("\t")[0] == "english"
    card = call("models", "english").out
    assert card.lstrip().startswith("# english\n")  # without what is for programs
    for word in ("CC BY-SA", "CC BY", "public domain", "GUM", "CRAFT", "right branching"):
        assert word in card
    assert call("models", "klingon").code == 2


def test_a_folder_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_run: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_directory("english") == installed()["english"]
    shutil.copytree(tiny_run, tmp_path / "english")
    assert run_directory("english") == Path("english")
    assert len(simplepcfg.load("english").vocabulary) == len(simplepcfg.load(tiny_run).vocabulary)


def test_a_folder_without_a_run_does_not_hide_it(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "english").mkdir()
    (tmp_path / "english" / "text.txt").write_text("the dog\n")
    assert run_directory("english") == installed()["english"]
    result = call("parse", "english", "--quiet", stdin="The dog slept.\n")
    assert (result.code, Tree.fromstring(result.out).leaves()) == (0, ["The", "dog", "slept", "."])
    assert "english\tsn-pcfg" in call("models").out


def test_a_name_that_is_none_says_what_there_is() -> None:
    with pytest.raises(InputError, match="or an installed grammar: english"):
        simplepcfg.load("englisch")


@pytest.mark.parametrize("name", ["model.safetensors", "config.toml", "vocabulary.txt"])
def test_damage_is_found(tmp_path: Path, name: str) -> None:
    shutil.copytree(installed()["english"], tmp_path / "copy")
    content = bytearray((tmp_path / "copy" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "copy" / name).write_bytes(content)
    with pytest.raises((DamagedFileError, InputError)):
        simplepcfg.load(tmp_path / "copy")
