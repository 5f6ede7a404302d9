"""A tiny run behind the application, asked without a network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import simplepcfg
from simplepcfg.inference.run import Run
from simplepcfg.serving.app import make_app
from tiny_runs import make_tiny_run


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """For every test in this folder."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_run(tmp_path_factory.mktemp("served") / "tiny")


@pytest.fixture(scope="session")
def run(folder: Path) -> Run:
    return simplepcfg.load(folder)


@pytest.fixture(scope="session")
def client(run: Run) -> Iterator[TestClient]:
    app = make_app({"tiny": run, "other": run}, workers=2)
    with TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as client:
        yield client
