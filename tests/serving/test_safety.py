"""No request takes the server down, reads a file, reaches another run or goes beyond the limits."""

import json
import random
import re
import threading
from pathlib import Path

import anyio
import pytest
from starlette.testclient import TestClient

from simplepcfg.inference.run import Run
from simplepcfg.serving.app import make_app
from simplepcfg.serving.questions import QUESTIONS, Limits

PAGE = Path(__file__).parents[2] / "src" / "simplepcfg" / "serving" / "page"
GOOD = {"sentence": "the old dog saw the cat"}


JSON = "application/json"
SPANS = [[0], [3, 1], [0, 99], [0.5, 2], ["a", "b"], [-1, 2], [0, 1, 2], [True, 2], None, 10**30]
VALUES = [None, 3, 2.5, [], {}, True, "x" * 5000, "dog " * 100, "\ud800", ["a"]]


def subject(question: str) -> str:
    """The key of what a question is about."""
    return {"describe_symbol": "symbol", "complete": "prefix"}.get(question, "sentence")


def malformed(rng: random.Random) -> tuple[str, bytes, str]:
    """A question, a body that is wrong in some way, and a content type."""
    question = rng.choice([item.name for item in QUESTIONS])
    kind = rng.randrange(10)
    if kind == 0:
        return question, rng.randbytes(rng.randint(0, 200)), JSON
    if kind == 1:
        return question, json.dumps(rng.choice([None, 1, "x", [], [GOOD], True])).encode(), JSON
    if kind == 2:
        return question, json.dumps(GOOD).encode(), rng.choice(["text/plain", "", "application/xml"])
    if kind == 3:
        return question, b"[" * rng.randint(100, 60000), JSON
    if kind == 4:
        return question, b" " * (1 << 16) + json.dumps(GOOD).encode(), JSON
    if kind == 5:
        run = rng.choice(["../tiny", "/etc/passwd", "tiny/", "TINY", "x" * 300, "\x00"])
        return question, json.dumps({subject(question): "NT-1", "run": run}).encode(), JSON
    if kind == 6:
        span = rng.choice(SPANS)
        asked = rng.choice([{"require": [span]}, {"forbid": span}, {"bonus": [[0, 2, "x"]]}, {"other": []}, [span]])
        return rng.choice(["parse", "chart", "k_best"]), json.dumps({**GOOD, "constraints": asked}).encode(), JSON
    if kind == 7:
        k = rng.choice([0, -1, 21, 10**9, "3", 1.5, None])
        return "k_best", json.dumps({**GOOD, "k": k}).encode(), JSON
    if kind == 8:
        return question, json.dumps({**GOOD, "unknown_key": 1, "file": "/etc/passwd"}).encode(), JSON
    return question, json.dumps({subject(question): rng.choice(VALUES)}).encode(), JSON


@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_malformed_requests_get_4xx_and_nothing_else(client: TestClient, capfd, count: int) -> None:
    rng = random.Random(0)
    statuses: dict[int, int] = {}
    for _ in range(count):
        question, body, kind = malformed(rng)
        answer = client.post(f"/api/{question}", content=body, headers={"content-type": kind})
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        assert 400 <= answer.status_code < 500, (question, body[:200], answer.text)
        assert "\n" not in answer.json()["error"]
        assert "Traceback" not in answer.text
    assert set(statuses) == {400, 404, 413, 415}
    assert client.post("/api/parse", json=GOOD).status_code == 200
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/%2e%2e/pyproject.toml", "/static/../app.py", "/app.py", "/page/index.html", "/api/no"],
)
def test_no_file_can_be_read(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_methods(client: TestClient) -> None:
    assert client.get("/api/parse").status_code == 405
    assert client.post("/api/runs").status_code == 405
    assert client.delete("/").status_code == 405


def test_security_headers_on_every_answer(client: TestClient) -> None:
    for answer in (client.get("/"), client.get("/nothing"), client.post("/api/parse", json={}), client.get("/main.js")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


def test_the_page_has_nothing_inline_and_nothing_of_third_parties() -> None:
    html = (PAGE / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*src=)", html) == []
    assert re.findall(r"\son\w+=|\sstyle=|<style", html) == []
    for file in PAGE.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, file
        assert "https://" not in text, file
        assert "innerHTML" not in text, file
        assert "eval(" not in text, file


def test_every_file_of_the_page_is_served(client: TestClient) -> None:
    for file in PAGE.iterdir():
        answer = client.get("/" if file.name == "index.html" else f"/{file.name}")
        assert answer.content == file.read_bytes()
    assert "--sp-ink" in client.get("/figures.css").text
    for name in re.findall(r'(?:src|href)="/([\w.]+)"', (PAGE / "index.html").read_text()):
        assert client.get(f"/{name}").status_code == 200
    for script in PAGE.glob("*.js"):
        for name in re.findall(r'from "\./([\w.]+)"', script.read_text()):
            assert (PAGE / name).is_file()


def test_other_hosts_and_origins_are_refused(client: TestClient) -> None:
    assert client.post("/api/parse", json=GOOD, headers={"host": "evil.example"}).status_code == 400
    assert client.post("/api/parse", json=GOOD, headers={"origin": "http://evil.example"}).status_code == 403
    same = client.post("/api/parse", json=GOOD, headers={"origin": "http://127.0.0.1:8000"})
    assert same.status_code == 200
    assert client.get("/", headers={"host": "localhost:9"}).status_code == 200


def test_limits_of_length(run: Run) -> None:
    client = TestClient(make_app({"tiny": run}, Limits(words=5), workers=1), base_url="http://localhost")
    assert client.post("/api/parse", json={"sentence": "a b c d e"}).status_code == 200
    answer = client.post("/api/parse", json={"sentence": "a b c d e f"})
    assert answer.status_code == 400
    assert "6 words; send at most 5" in answer.json()["error"]


def test_a_defect_is_one_requests_error(run: Run, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    client = TestClient(make_app({"tiny": run}, workers=1), base_url="http://localhost", raise_server_exceptions=False)
    monkeypatch.setattr(run, "chart", lambda *_, **__: 1 / 0)
    answer = client.post("/api/chart", json=GOOD)
    assert answer.status_code == 500
    assert "division" not in answer.text
    assert "ZeroDivisionError" in capfd.readouterr().err
    assert client.post("/api/parse", json=GOOD).status_code == 200


def test_messages_do_not_tell_where_runs_lie(client: TestClient, run: Run) -> None:
    answer = client.post("/api/describe_symbol", json={"symbol": "NT-99"})
    assert answer.status_code == 400
    assert str(run.directory) not in answer.text
    assert str(run.directory) not in client.get("/api/runs").text


class Gone:
    """A client that sends a request and leaves, as a browser does when somebody types on."""

    def __init__(self, app, question: str, body: dict) -> None:
        self.app, self.body, self.sent = app, json.dumps(body).encode(), []
        headers = [(b"host", b"localhost"), (b"content-type", JSON.encode())]
        self.scope = {"type": "http", "method": "POST", "path": f"/api/{question}", "headers": headers}
        self.scope |= {"query_string": b"", "client": ("127.0.0.1", 1), "http_version": "1.1", "scheme": "http"}
        self.left = anyio.Event()

    async def receive(self) -> dict:
        if self.body is not None:
            body, self.body = self.body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict) -> None:
        self.sent.append(message)

    async def ask(self) -> None:
        await self.app(self.scope, self.receive, self.send)


def test_a_question_whose_client_has_left_is_given_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits is not begun, and one that runs ends between its parts."""
    begun: list[str] = []
    going = threading.Event()

    def slow(sentence, k, constraints, *, samples, seed, between):
        begun.append(" ".join(sentence))
        for _ in range(200):
            between()
            if going.wait(0.05):
                return []
        raise AssertionError("was not given up")

    monkeypatch.setattr(run, "bracketings", slow)
    app = make_app({"tiny": run}, workers=1)

    async def main() -> None:
        clients = [Gone(app, "bracketings", {"sentence": text}) for text in ("the first", "the second", "the third")]
        with anyio.fail_after(8):
            async with anyio.create_task_group() as group:
                for client in clients:
                    group.start_soon(client.ask)
                    await anyio.sleep(0.1)
                for client in clients[:2]:
                    client.left.set()
                while begun != ["the first", "the third"]:
                    await anyio.sleep(0.01)
                going.set()
        assert [client.sent[0]["status"] for client in clients] == [499, 499, 200]

    anyio.run(main)


def test_a_tree_does_not_wait_for_other_questions(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app({"tiny": run}, workers=1)
    answered = threading.Event()

    def slow(*_, **__):
        assert answered.wait(60), "the tree waited"
        return []

    monkeypatch.setattr(run, "bracketings", slow)

    async def main() -> None:
        slow_one, tree = Gone(app, "bracketings", GOOD), Gone(app, "parse", GOOD)
        async with anyio.create_task_group() as group:
            group.start_soon(slow_one.ask)
            await anyio.sleep(0.1)
            await tree.ask()
            answered.set()
        assert [client.sent[0]["status"] for client in (slow_one, tree)] == [200, 200]

    anyio.run(main)


def test_a_request_that_is_refused_is_read_to_its_end(run: Run) -> None:
    """Else the connection is reset, and the client never sees why."""
    app = make_app({"tiny": run}, Limits(waiting=0), workers=1)

    async def main() -> None:
        refused = Gone(app, "score", GOOD)
        await refused.ask()
        assert refused.sent[0]["status"] == 503
        assert refused.body is None

    anyio.run(main)
