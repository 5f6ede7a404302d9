"""`simplepcfg train`: where runs go, what changes them, how they go on."""

from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg import load
from simplepcfg.errors import InputError
from simplepcfg.runs.config.files import load_config
from tiny_runs import SETTINGS

SET = [argument for setting in SETTINGS for argument in ("--set", setting)]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_built_in_configuration(call: Call, text_file: Path) -> None:
    result = call("train", "sn-pcfg-small", "--train", text_file, "--valid", text_file, "--seed", 7, *SET)
    assert (result.code, result.out) == (0, "")
    assert "runs/sn-pcfg-small" in result.err
    run = load("runs/sn-pcfg-small")
    assert (run.config.seed, run.config.model.nonterminals) == (7, 4)
    again = call("train", "sn-pcfg-small", "--train", text_file, *SET)
    assert again.code == 2
    assert "already holds a run" in again.err


def test_a_file_of_one_s_own_names_the_folder(call: Call, text_file: Path, tmp_path: Path) -> None:
    Path("mine.toml").write_text(f'[data]\ntrain = "{text_file}"\n[training]\nthreads = 1\n')
    assert call("train", "mine.toml", "--quiet", *SET).err == ""
    assert (tmp_path / "runs/mine/model.safetensors").exists()


def test_resume_goes_on_to_more_epochs(call: Call, text_file: Path) -> None:
    call("train", "sn-pcfg-small", "--train", text_file, "--out", "r", *SET)
    finished = call("train", "--resume", "r")
    assert finished.code == 0
    assert (
        "nothing left to do after epoch 1: all epochs are done; to go on, set training.epochs to more" in finished.err
    )
    assert call("train", "--resume", "r", "--set", "training.epochs=2").code == 0
    assert load_config(Path("r/config.toml"), environment={}).training.epochs == 2
    assert Path("r/metrics.jsonl").read_text().count('"epoch", "epoch"') == 2
    refused = call("train", "--resume", "r", "--seed", "3")
    assert refused.code == 2
    assert "cannot change" in refused.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--resume"),
        (["sn-pcfg-small"], "--train"),
        (["sn-pcfg-smal"], "sn-pcfg-small"),
        (["sn-pcfg-small", "--resume", "r"], "leave out"),
        (["sn-pcfg-small", "--train", "nowhere.txt"], "nowhere.txt"),
        (["sn-pcfg-small", "--train", "x", "--set", "training.epoch=3"], "training.epochs"),
        (["sn-pcfg-small", "--train", "x", "--device", "tpu"], "tpu"),
    ],
)
def test_bad_usage_is_one_line(call: Call, arguments: list[str], said: str) -> None:
    result = call("train", *arguments)
    assert result.code == 2
    assert said in result.err
    assert result.err.count("\n") == 1


def test_trees_with_tags_of_another_kind(call: Call, tmp_path: Path) -> None:
    """Training, parsing and scoring all know the punctuation of such trees by its characters."""
    line = "(S (NP (DET the) (NOUN {})) (VP (VERB sees) (NP (NUM 5) (SYM °C))) (PUNCT .))\n"
    file = tmp_path / "other.trees"
    file.write_text("".join(line.format(noun) for noun in ("dog", "cat", "man", "bird")), encoding="utf-8")
    result = call("train", "sn-pcfg-small", "--train", file, "--out", "r", *SET)
    assert result.code == 0
    assert "the tags are not Penn's" in result.err
    assert "." not in load("r").vocabulary
    text = call("score", "r", stdin="the dog sees 5 °C .\n").lines
    assert call("score", "r", file).lines[:1] == text
    assert call("parse", "r", file).lines[0].endswith(" (T .))")


def test_settings_that_the_model_refuses_leave_the_folder_free(
    call: Call, text_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise InputError("no such precision")

    arguments = ("train", "sn-pcfg-small", "--train", text_file, "--out", "r", *SET)
    with monkeypatch.context() as patch:
        patch.setattr("simplepcfg.training.loop.set_precision", refuse)
        assert call(*arguments).code == 2
    assert call(*arguments).code == 0


def test_file_names_beyond_the_basic_plane(call: Call, text_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "😀 é.txt"
    file.write_bytes(text_file.read_bytes())
    assert call("train", "sn-pcfg-small", "--train", file.name, "--out", "r", *SET).code == 0
    assert load_config(Path("r/config.toml"), environment={}).data.train == str(file)


def test_resume_reads_no_environment(call: Call, text_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call("train", "sn-pcfg-small", "--train", text_file, "--out", "r", *SET)
    monkeypatch.setenv("SIMPLEPCFG_SEED", "9")
    assert call("train", "--resume", "r", "--set", "training.patience=3").code == 0


def test_resume_of_nothing_names_the_folder(call: Call) -> None:
    result = call("train", "--resume", "nosuch", "--seed", "4")
    assert result.code == 2
    assert "nosuch: no such run folder; give --resume one that `simplepcfg train` wrote" in result.err


def test_a_text_in_place_of_a_configuration_gets_the_command(call: Call, text_file: Path) -> None:
    result = call("train", text_file)
    assert result.code == 2
    assert "not valid TOML" in result.err
    assert result.err.endswith(f"; to learn from this file: simplepcfg train sn-pcfg-128 --train {text_file}\n")


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", ""])
def test_a_name_cannot_lead_out_of_runs(call: Call, text_file: Path, tmp_path: Path, name: str) -> None:
    result = call("train", "sn-pcfg-small", "--train", text_file, "--set", f'name="{name}"', *SET)
    assert result.code == 2
    assert "give --out DIR" in result.err
    assert not list(tmp_path.iterdir())


def test_leaves_of_white_space_alone_train_and_load(call: Call, tmp_path: Path) -> None:
    trees = tmp_path / "train.trees"
    line = "(S (NP (DT the) (NN \u00a0)) (VP (VBZ sees) (NN a\u3000b)))\n"
    trees.write_text(line * 8, encoding="utf-8")
    out = tmp_path / "run"
    assert call("train", "sn-pcfg-small", "--train", trees, "--out", out, *SET).code == 0
    assert {"_", "a_b"} <= set(load(out).vocabulary.words)
    assert call("evaluate", out, trees).code == 0


def test_the_next_command_is_quoted(call: Call, text_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "my runs" / "first"
    result = call("train", "sn-pcfg-small", "--train", text_file, "--out", out, *SET)
    assert f"next: simplepcfg evaluate '{out}' FILE\n" in result.err
