"""`simplepcfg package`: wheels that register a grammar, equal bytes, and the folder that this package ships."""

import hashlib
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest
import torch

from command_calls import Call
from simplepcfg import load, pretrained
from simplepcfg.errors import InputError
from simplepcfg.grammars import FactoredEmissions
from simplepcfg.inference.labelling import learn_labels
from simplepcfg.inference.run import Run
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.runs.tensor_files import read_tensor_file

CARD = "---\nlanguage: xx\n---\n\n# tiny\n\nLearned from a few made sentences.\n"


@pytest.fixture
def described(tiny_run: Path, tmp_path: Path) -> Path:
    """A run with a model card."""
    folder = copytree(tiny_run, tmp_path / "described")
    (folder / "README.md").write_text(CARD)
    return folder


@pytest.fixture
def _looked_up_anew() -> Iterator[None]:
    """Installed grammars are looked up once a process, and again in this test and after it."""
    pretrained.sources.cache_clear()
    yield
    pretrained.sources.cache_clear()


@pytest.mark.usefixtures("_looked_up_anew")
def test_a_wheel_is_installed_and_known_by_name(
    call: Call, described: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = call("package", described, "--name", "simplepcfg-tiny-one", "--out", tmp_path / "one")
    again = call("package", described, "--name", "simplepcfg-tiny-one", "--out", tmp_path / "two")
    (wheel,) = (tmp_path / "one").iterdir()
    assert made.out.strip() == str(wheel)
    digests = {hashlib.sha256(Path(result.out.strip()).read_bytes()).digest() for result in (made, again)}
    assert len(digests) == 1
    # What pip does with a wheel that has no scripts.
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    model = load("tiny-one")
    assert (model.name, model.config.data.tokenize) == ("tiny-one", True)
    listed = call("models").lines
    assert any(line.startswith("tiny-one\t") and line.endswith("\tsimplepcfg-tiny-one 0.2.0") for line in listed)
    assert "Learned from a few made sentences." in call("models", "tiny-one").lines
    assert call("parse", "tiny-one", "--quiet", stdin="a b\n").out.startswith("(X (T a)")
    assert "simplepcfg_tiny_one" not in sys.modules


def log_normaliser(run: Run) -> torch.Tensor:
    assert isinstance(run.grammar.emissions, FactoredEmissions)
    return run.grammar.emissions.log_normaliser


def test_a_folder_is_what_this_package_ships(call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path) -> None:
    run = load(tiny_run)
    labelled = load(run.save(tmp_path / "labelled"))
    from simplepcfg.data.readers import read_trees

    labels = learn_labels(labelled, list(read_trees(trees_file)))
    (tmp_path / "labelled" / "labels.json").write_text(labels.to_json())
    (tmp_path / "labelled" / "README.md").write_text(CARD)
    made = call("package", tmp_path / "labelled", "--name", "tiny", "--folder", "--out", tmp_path / "out")
    assert made.out.strip() == str(tmp_path / "out" / "tiny")
    folder = RunFolder(tmp_path / "out" / "tiny")
    assert {path.name for path in folder.path.iterdir()} >= {"README.md", "labels.json", "config.toml"}
    weights = read_tensor_file(folder.model)
    assert {tensor.dtype for tensor in weights.tensors.values()} == {torch.bfloat16}
    config = folder.read_config()
    assert (config.name, config.data.train, config.data.tokenize) == ("tiny", None, True)
    packed = load(folder.path)  # the labels know the rounded weights
    assert packed.labels is not None
    assert packed.labels.phrase_shares == labels.phrase_shares
    # Packing what was packed changes nothing.
    call("package", folder.path, "--name", "tiny", "--folder", "--out", tmp_path / "twice")
    for path in folder.path.iterdir():
        assert path.read_bytes() == (tmp_path / "twice" / "tiny" / path.name).read_bytes(), path.name
    # The normaliser that was written is the one of the weights, until they are changed.
    folder.normaliser.unlink()
    assert torch.equal(log_normaliser(packed), log_normaliser(load(folder.path)))
    with torch.no_grad():
        packed.model.word_embeddings.mul_(2)  # type: ignore[operator, union-attr]
    assert not torch.equal(log_normaliser(packed), log_normaliser(load(folder.path)))


def test_refusals(call: Call, tiny_run: Path, described: Path, tmp_path: Path) -> None:
    for arguments, named in [
        ([described, "--name", "french"], "simplepcfg-french"),
        ([described, "--name", "simplepcfg-French"], "no name"),
        ([tiny_run, "--name", "simplepcfg-tiny"], "has no README.md"),
    ]:
        result = call("package", *arguments, "--out", tmp_path / "dist")
        assert (result.code, named in result.err, len(result.err.splitlines())) == (2, True, 1), result.err
    assert not (tmp_path / "dist").exists()
    result = call("package", described, "--name", "simplepcfg-tiny", "--out", described / "README.md")
    assert (result.code, "README.md is a file; give a folder" in result.err) == (2, True), result.err


def test_a_missing_grammar_says_how_to_install_it(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    own = {"english": pretrained.sources()["english"]}
    monkeypatch.setattr(pretrained, "sources", lambda: own)
    for arguments in (["parse", "german"], ["models", "german"], ["score", "german"]):
        assert "pip install simplepcfg-german" in call(*arguments, stdin="a b\n").err
    with pytest.raises(InputError, match="pip install simplepcfg-spanish"):
        load("spanish")
    assert "pip install" not in call("parse", "klingon", stdin="a b\n").err


PACKAGES = Path(__file__).parents[2] / "packages"


def build_all(out: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PACKAGES / "build.py"), *names, "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_repository_builds_all_wheels_alike(tmp_path: Path) -> None:
    one, other = build_all(tmp_path / "one"), build_all(tmp_path / "other")
    assert one.returncode == other.returncode == 0, one.stderr
    rows = [line.split("\t") for line in one.stdout.splitlines()]
    assert [Path(path).name.split("-")[0] for path, _, _ in rows] == [
        f"simplepcfg_{name.replace('-', '_')}" for name in pretrained.PACKAGED
    ]
    assert [row[1:] for row in rows] == [line.split("\t")[1:] for line in other.stdout.splitlines()]


def test_a_grammar_that_the_repository_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["build.py", "klingon", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(PACKAGES / "build.py"), run_name="__main__")
    assert "klingon is unknown; there are: english-surprisal, french, german, spanish" in capsys.readouterr().err


@pytest.mark.parametrize("name", pretrained.PACKAGED)
def test_packed_grammars_are_small_and_described(name: str) -> None:
    folder = RunFolder(PACKAGES / name)
    assert sum(path.stat().st_size for path in folder.path.iterdir()) <= 15_000_000
    config = folder.read_config()
    assert (config.name, config.data.train, config.data.tokenize) == (name, None, True)
    card = (folder.path / "README.md").read_text(encoding="utf-8")
    measured = "SyntaxGym" if name.endswith("-surprisal") else "right branching"
    for word in ("public domain", "CC BY", measured, "## Limits"):
        assert word in card
