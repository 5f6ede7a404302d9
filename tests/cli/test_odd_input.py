"""Input that hardly anybody gives: empty values, closed streams, damaged files. Each is one line, nothing is lost."""

import hashlib
import shutil
import sys
from pathlib import Path

import pytest
import torch

from command_calls import Call
from simplepcfg.cli.main import run as run_command
from simplepcfg.runs.tensor_files import read_tensor_file, write_tensor_file
from tiny_runs import tiny_sentences


def contents(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


@pytest.fixture
def copy(tiny_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run, tmp_path / "run"))


def test_damaged_weights_are_seen_whatever_is_asked(call: Call, copy: Path, text_file: Path) -> None:
    tensors, record, *_ = read_tensor_file(copy / "model.safetensors")
    tensors["word_embeddings"][3, 1] = torch.nan
    write_tensor_file(copy / "model.safetensors", tensors, record)
    questions = (["parse", copy, text_file], ["show", copy, text_file], ["sample", copy], ["score", copy, text_file])
    for arguments in questions:
        outcome = call(*arguments)
        assert (outcome.code, outcome.out) == (3, "")
        assert outcome.err.count("\n") == 1
        assert (
            "model.safetensors: word_embeddings is not finite; the weights are damaged, train it again" in outcome.err
        )


def spoil_metrics(run: Path) -> str:
    (run / "metrics.jsonl").write_bytes(b"")
    return "metrics.jsonl: 0 bytes where the checkpoint expects"


def spoil_facts(run: Path) -> str:
    (run / "run.json").write_bytes(b"\xff")
    return "run.json: damaged"


def spoil_sizes(run: Path) -> str:
    lines = (run / "config.toml").read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(lines[1:])  # the first is a checksum
    (run / "config.toml").write_text(text.replace("nonterminals = 4", "nonterminals = 5"), encoding="utf-8")
    return "checkpoint.safetensors"


@pytest.mark.parametrize("spoil", [spoil_metrics, spoil_facts, spoil_sizes])
def test_a_resume_that_is_refused_changes_nothing(call: Call, copy: Path, tmp_path: Path, spoil) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(tiny_sentences()) + "\n", encoding="utf-8")
    said = spoil(copy)
    before = contents(copy)
    outcome = call("train", "--resume", copy, "--train", text, "--set", "training.epochs=3")
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
    assert contents(copy) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "sn-pcfg-small", "--out", ""], "--out is empty; give it a value"),
        (["train", "sn-pcfg-small", "--train="], "--train is empty"),
        (["train", "--resume", ""], "--resume is empty"),
        (["sample", "RUN", "--count=abc"], "'--count': 'abc' is no whole number"),
        (["sample", "RUN", "--count=1.5"], "'--count': '1.5' is no whole number"),
        (["sample", "RUN", "--temperature", "warm"], "'--temperature': 'warm' is no number"),
        (["prepare", "brackets", "TREES", "--out", "p", "--split", "1e308,1e308,1e308"], "give three shares"),
        (["demo", "--device", "gpu", "--out", "dx"], "gpu"),
        (
            ["train", "sn-pcfg-small", "--train", "TEXT", "--out", "dx", "--set", "training.branching_bias=1e300"],
            "1e+300",
        ),
    ],
)
def test_refusals_leave_nothing(
    call: Call, tiny_run: Path, trees_file: Path, text_file: Path, tmp_path: Path, monkeypatch, arguments, said
) -> None:
    monkeypatch.chdir(tmp_path)
    here = set(tmp_path.iterdir())
    places = {"RUN": tiny_run, "TREES": trees_file, "TEXT": text_file}
    outcome = call(*(places.get(word, word) for word in arguments))
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
    assert set(tmp_path.iterdir()) == here


def test_an_empty_prefix_is_a_value(call: Call, tiny_run: Path) -> None:
    assert call("complete", tiny_run, "", "--top", "1").code == 0
    assert call("complete", tiny_run, "--top", "1", "").code == 0


@pytest.mark.parametrize(("name", "code"), [("stdin", 0), ("stdout", 2), ("stderr", 0)])
def test_closed_streams(tiny_run: Path, text_file: Path, name: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, name, None)
    assert run_command(["parse", str(tiny_run), "-" if name == "stdin" else str(text_file)]) == code
