"""`simplepcfg serve`: refusals in one line, and a real server that answers and ends."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from command_calls import Call
from simplepcfg import pretrained
from simplepcfg.inference.systems import unique_names


def test_without_a_run(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "installed", dict)
    found = call("serve")
    assert found.code == 2
    assert found.err.count("\n") == 1
    assert "name the folder of a trained run" in found.err


def test_bad_runs(call: Call, tmp_path: Path) -> None:
    assert call("serve", tmp_path / "nothing").code == 2
    assert "no answers to serve" in call("serve", "right-branching").err


def test_without_the_extra(call: Call, tiny_run: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    found = call("serve", tiny_run)
    assert found.code == 2
    assert "pip install '.[serve]' in a checkout" in found.err


def test_taken_port(call: Call, tiny_run: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = call("serve", tiny_run, "--port", taken.getsockname()[1])
    assert found.code == 4
    assert "cannot listen on" in found.err
    elsewhere = call("serve", tiny_run, "--host", "192.0.2.1", "--port", 0)  # an address that no machine has
    assert (elsewhere.code, elsewhere.err.count("\n")) == (4, 1)
    assert found.err.count("\n") == 1


def test_names_of_runs(tiny_run: Path) -> None:
    import simplepcfg

    run = simplepcfg.load(tiny_run)
    assert list(unique_names([run, run, run])) == ["run", "run-2", "run-3"]


@pytest.mark.slow
def test_a_real_server(tiny_run: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "simplepcfg", "serve", str(tiny_run), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        body = json.dumps({"sentence": "the dog saw the cat"}).encode()
        request = Request(f"{address}/api/parse", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            assert json.load(answer)["tree"]["words"] == ["the", "dog", "saw", "the", "cat"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (0, 130)
    finally:
        process.kill()


def test_two_ctrl_c_while_it_starts_are_one_line(call: Call, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    startup = uvicorn.Server.startup

    async def interrupted(server: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        await startup(server, sockets)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(uvicorn.Server, "startup", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs ignore Ctrl-C.
    try:
        result = call("serve", tiny_run, "--port", "0", "-q")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.code, result.err) == (130, "simplepcfg: interrupted\n")
