"""Runs on a hub: local folders and installed grammars need no library; the rest talks to an endpoint of our own."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from simplepcfg import Run, load
from simplepcfg.errors import InputError
from simplepcfg.inference import hub
from tiny_runs import make_tiny_run

SENTENCES = ["the dog sees a cat", "the man sleeps"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_run(tmp_path_factory.mktemp("hub") / "run")


def test_save_pretrained_and_back(run_folder: Path, tmp_path: Path) -> None:
    run = load(run_folder)
    folder = run.save_pretrained(tmp_path / "mine")
    assert {path.name for path in folder.iterdir()} == set(hub.FILES) - {"normaliser.safetensors"}  # which packing adds
    assert "library_name: simplepcfg" in (folder / "README.md").read_text()
    assert Run.from_pretrained(folder).score(SENTENCES) == run.score(SENTENCES)


def test_a_folder_has_no_revision(run_folder: Path) -> None:
    with pytest.raises(InputError, match="which has no revision"):
        Run.from_pretrained(run_folder, revision="v1")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"pip install '\.\[hub\]' in a checkout"):
        Run.from_pretrained("nobody/nothing")


class Endpoint(ThreadingHTTPServer):
    """As much of a hub as fetching and uploading ask for; `files` is the one repository's content."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.commits: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """Answers with JSON, or with a file and the headers that name its version."""

    server: Endpoint

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path.startswith("/api/models/me/grammar/tree/"):
            listed = self.server.files.items()
            self._json([{"type": "file", "path": name, "size": len(item), "oid": name} for name, item in listed])
        elif path.startswith("/api/models/me/grammar"):
            siblings = [{"rfilename": name} for name in self.server.files]
            self._json({"id": "me/grammar", "sha": COMMIT, "siblings": siblings, "private": False, "tags": []})
        elif path.startswith("/me/grammar/resolve/") and (name := path.rsplit("/", 1)[1]) in self.server.files:
            content = self.server.files[name]
            self._send(200, content, {"ETag": f'"{name}"', "X-Repo-Commit": COMMIT})
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == "/api/repos/create":
            self._json({"url": f"{self.server.address}/me/grammar", "name": "me/grammar"})
        elif "/preupload/" in self.path:
            asked = [item["path"] for item in json.loads(body)["files"]]
            modes = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in asked]
            self._json({"files": modes})
        elif "/commit/" in self.path:
            self.server.commits += [
                json.loads(line)["value"]["path"] for line in body.splitlines() if json.loads(line)["key"] == "file"
            ]
            self._json({"commitUrl": f"{self.server.address}/me/grammar/commit/{COMMIT}", "commitOid": COMMIT})
        else:
            self._json({})

    def log_message(self, *_: object) -> None:
        """Nothing: the test says what went wrong."""

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, code: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@pytest.fixture
def endpoint(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """A hub with one grammar, and a cache of its own."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    names = ("config.toml", "vocabulary.txt", "model.safetensors")
    server = Endpoint({name: (run_folder / name).read_bytes() for name in names} | {"extra.bin": b"never fetched"})
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.peer
def test_fetch(endpoint: Endpoint, run_folder: Path) -> None:
    run = Run.from_pretrained("me/grammar", endpoint=endpoint.address)
    assert run.score(SENTENCES) == load(run_folder).score(SENTENCES)
    assert run.directory is not None
    assert not (run.directory / "extra.bin").exists()


@pytest.mark.peer
def test_fetch_what_is_not_there(endpoint: Endpoint) -> None:
    with pytest.raises(InputError, match="nobody/nothing: neither a folder nor fetched"):
        Run.from_pretrained("nobody/nothing", endpoint=endpoint.address)


@pytest.mark.peer
def test_push(endpoint: Endpoint, run_folder: Path) -> None:
    address = load(run_folder).push_to_hub("me/grammar", endpoint=endpoint.address, token="hf_none")
    assert address.endswith(COMMIT)
    assert set(endpoint.commits) == set(hub.FILES)
