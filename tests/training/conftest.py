"""A text and a grammar so small that a whole run takes a fraction of a second."""

import random
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import train
from toy_runs import TOY_SETTINGS, toy_sentences

MakeConfig = Callable[..., RunConfig]


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """For every test in this folder."""


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "train.txt"
    path.write_text("\n".join(toy_sentences(random.Random(1), 60)) + "\n", "utf-8")
    return path


@pytest.fixture(scope="session")
def make_config(text_file: Path) -> MakeConfig:
    def make(*overrides: str) -> RunConfig:
        return load_config(overrides=[*TOY_SETTINGS, f'data.train="{text_file}"', *overrides], environment={})

    return make


@pytest.fixture(scope="session")
def whole(make_config: MakeConfig, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The undisturbed run; not to be written to."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "whole")
    train(make_config(), folder.path)
    return folder


@pytest.fixture
def finished(whole: RunFolder, tmp_path: Path) -> RunFolder:
    """A copy of the undisturbed run, in `tmp_path / "run"`, to be written to."""
    return RunFolder(Path(copytree(whole.path, tmp_path / "run")))
