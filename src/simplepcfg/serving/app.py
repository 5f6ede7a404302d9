"""The web application: the page's files, the JSON interface, and what keeps both safe."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from urllib.parse import urlsplit

import anyio
import torch
from pydantic import ValidationError
from pydantic.json_schema import models_json_schema
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from simplepcfg.drawing import stylesheet
from simplepcfg.errors import InputError, ResourceError, SimplePCFGError
from simplepcfg.files import Record, finite
from simplepcfg.inference.run import Run
from simplepcfg.inference.run_summary import run_facts, sample_parses
from simplepcfg.runs.history import read_history
from simplepcfg.serving.questions import QUESTIONS, Limits, Question, questions_of
from simplepcfg.version import __version__

SAFETY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FIRST_QUESTIONS = frozenset({"parse"})  # what somebody who types waits for
LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})

_FOUND = {"description": "The answer, a JSON object.", "content": {"application/json": {}}}
_ERRORS = {
    code: {"description": f'{text} The answer is {{"error": one line}}.'}
    for code, text in {
        "400": "The request is no JSON object of this form, or what it asks for cannot be.",
        "404": "There is no such run.",
        "413": "The body is too large.",
        "415": "The body is not sent as application/json.",
        "503": "Too many requests are waiting, or too little memory is left.",
    }.items()
}

Handler = Callable[[Request], Awaitable[Response]]


class _Service:
    """The runs, the limits, and the threads that compute."""

    def __init__(self, runs: Mapping[str, Run], limits: Limits, names: frozenset[str] | None, workers: int) -> None:
        self.runs, self.limits, self.names = dict(runs), limits, names
        self._workers = workers
        self._threads: dict[bool, anyio.CapacityLimiter] = {}
        self._waiting = 0
        self._described: list[Record] | None = None

    def guarded(self, handler: Handler) -> Handler:
        """Return the handler behind all checks; whatever fails inside is one request's error."""

        async def handle(request: Request) -> Response:
            try:
                self._check_origin(request)
                response = await handler(request)
            except HTTPException as error:
                await self._drain(request)
                return _error(error.status_code, error.detail, error.headers)
            except ClientDisconnect:
                return _error(400, "the request ended before its body did; send all of it")
            except Exception as error:
                print(f"simplepcfg: {request.url.path}: {type(error).__name__}: {error}", file=sys.stderr)
                return _error(500, "the server made a mistake; its log says more")
            response.headers.update(SAFETY)
            return response

        return handle

    def _check_origin(self, request: Request) -> None:
        """Refuse requests of pages of other servers, and of names that lead here."""
        host = request.headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            name = None
        if name is None or (self.names is not None and name not in self.names):
            raise HTTPException(400, "the Host header names no address of this server; open it as http://127.0.0.1")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise HTTPException(403, "the request comes from a page of another site; open this server's own")

    async def list_runs(self, request: Request) -> Response:
        """GET /api/runs."""
        if self._described is None:
            self._described = [_describe(name, run) for name, run in self.runs.items()]
        limits = {"max_words": self.limits.words, "max_trees": self.limits.trees}
        return _reply({"runs": self._described, **limits})

    async def ask(self, question: Question, request: Request) -> Response:
        """Answer POST /api/QUESTION."""
        body = await self._body(request)
        try:
            asked = question.request.model_validate(body, strict=True)
        except ValidationError as error:
            raise HTTPException(400, _explain(error)) from None
        name = getattr(asked, "run", None) or next(iter(self.runs))
        if name not in self.runs:
            raise HTTPException(404, f"there is no run {name!r}; take one of {', '.join(self.runs)}")
        if self._waiting >= self.limits.waiting:
            raise HTTPException(503, "too many requests are waiting; try again", {"Retry-After": "1"})
        self._waiting += 1
        try:
            return await self._compute(question, request, partial(question.answer, self.runs[name], asked, self.limits))
        except SimplePCFGError as error:
            status = 400 if isinstance(error, InputError) else 503 if isinstance(error, ResourceError) else 500
            # The run as it is called here; there is one sentence only, which has no number.
            told = re.sub(r"\bsentence 0\b", "the sentence", str(error).replace(self.runs[name].name, name))
            raise HTTPException(status, told) from None
        finally:
            self._waiting -= 1

    async def _compute(self, question: Question, request: Request, answer: Callable[[], Record]) -> Response:
        """Compute in a thread, unless the client leaves first: whoever types on no longer wants the answer.

        Trees have threads of their own and the other questions one less than there are cores, so that a tree never
        waits for a picture of the sentence before.
        """
        first = question.name in FIRST_QUESTIONS
        if first not in self._threads:  # made inside the event loop that it belongs to
            self._threads[first] = anyio.CapacityLimiter(self._workers if first else max(1, self._workers - 1))
        outcome: Record | Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when_gone, request, group.cancel_scope)
            outcome = await anyio.to_thread.run_sync(partial(_attempt, answer), limiter=self._threads[first])
            group.cancel_scope.cancel()
        if isinstance(outcome, Exception):
            raise outcome
        return Response(status_code=499) if outcome is None else _reply(outcome)

    async def _drain(self, request: Request) -> None:
        """Read what is left of a request that is refused, since a connection with unread data is reset."""
        size = 0
        try:
            async for part in request.stream():
                size += len(part)
                if size > 4 * self.limits.body_bytes:
                    return
        except (ClientDisconnect, RuntimeError):  # RuntimeError: it has been read already
            return

    async def _body(self, request: Request) -> object:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "send the request as application/json")
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self.limits.body_bytes:
                raise HTTPException(413, f"the request is larger than {self.limits.body_bytes} bytes; send less")
            parts.append(part)
        try:
            content = json.loads(b"".join(parts))
            # Escapes such as \\ud800 alone are no character, and could not be sent back.
            json.dumps(content, ensure_ascii=False).encode()
            return content
        except (ValueError, RecursionError):
            raise HTTPException(400, "the request is not JSON; send one object in UTF-8") from None


async def _cancel_when_gone(request: Request, scope: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _attempt(answer: Callable[[], Record]) -> Record | Exception:
    """Return the error as a value, which a group of tasks would wrap."""
    try:
        return answer()
    except Exception as error:
        return error


def make_app(
    runs: Mapping[str, Run],
    limits: Limits | None = None,
    *,
    names: frozenset[str] | None = LOCAL_NAMES,
    workers: int | None = None,
) -> Starlette:
    """Return the web application that answers questions about these runs; no request can reach any other.

    ``names`` are the host names by which it may be asked, None for any. Grammars are computed here, once. The process's
    torch is set to one thread for each of the ``workers`` (one a core), which answer side by side.
    """
    if not runs:
        raise InputError("no runs to serve; give at least one")
    if workers is None:
        workers = max(1, torch.get_num_threads())
        torch.set_num_threads(1)
    for run in runs.values():
        if run.shares_rules:
            _ = run.grammar
            if run.has_trees:
                run.symbol_name("NT-0")  # looks at all words once
    service = _Service(runs, limits or Limits(), names, workers)
    routes = [
        Route("/api/runs", service.guarded(service.list_runs), methods=["GET"]),
        *(
            Route(f"/api/{question.name}", service.guarded(partial(service.ask, question)), methods=["POST"])
            for question in QUESTIONS
        ),
        *(
            Route(path, service.guarded(_constant(content, kind)), methods=["GET"])
            for path, (content, kind) in _fixed_answers().items()
        ),
    ]
    return Starlette(routes=routes, exception_handlers={404: _not_here, 405: _not_here})


def openapi_document() -> Record:
    """Return the OpenAPI 3.1 document of the interface: one POST for each question, and the list of runs."""
    names, definitions = models_json_schema(
        [(question.request, "validation") for question in QUESTIONS], ref_template="#/components/schemas/{model}"
    )
    listed = {"operationId": "runs", "summary": "The runs that can be asked.", "responses": {"200": _FOUND}}
    paths: Record = {"/api/runs": {"get": listed}}
    for question in QUESTIONS:
        body = {"application/json": {"schema": names[question.request, "validation"]}}
        paths[f"/api/{question.name}"] = {
            "post": {
                "operationId": question.name,
                "summary": question.summary,
                "description": f"As `Run.{question.name}` of the Python interface.",
                "requestBody": {"required": True, "content": body},
                "responses": {"200": _FOUND, **_ERRORS},
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "simplepcfg", "version": __version__, "description": "Questions to trained grammars."},
        "paths": paths,
        "components": {"schemas": definitions["$defs"]},
    }


def _fixed_answers() -> dict[str, tuple[bytes, str]]:
    """Return the files of the page and the interface's description by their paths; a request never opens a file."""
    contents: dict[str, tuple[bytes, str]] = {}
    for item in files("simplepcfg.serving").joinpath("page").iterdir():
        suffix = item.name[item.name.rfind(".") :]
        if suffix in KINDS:
            contents["/" if item.name == "index.html" else f"/{item.name}"] = (item.read_bytes(), KINDS[suffix])
    contents["/figures.css"] = (stylesheet(root=":root").encode(), KINDS[".css"])
    contents["/openapi.json"] = (json.dumps(openapi_document()).encode(), "application/json")
    return contents


def _constant(content: bytes, kind: str) -> Handler:
    async def handle(request: Request) -> Response:
        return Response(content, media_type=kind)

    return handle


def _describe(name: str, run: Run) -> Record:
    model, history = run.config.model, read_history(run.directory)
    return {
        "name": name,
        "kind": model.kind,
        "nonterminals": getattr(model, "nonterminals", None),
        "preterminals": getattr(model, "preterminals", None),
        "vocabulary": len(run.vocabulary),
        "questions": questions_of(run),
        "facts": dict(run_facts(run, history)),
        "training": [{"told": caption, "svg": picture} for caption, picture in sample_parses(history)],
        "examples": examples_of(run),
    }


def _reply(message: Record) -> Response:
    return JSONResponse(finite(message))


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": " ".join(message.split())}, status, headers={**SAFETY, **(headers or {})})


async def _not_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    is_missing = error.status_code == 404
    text = "there is nothing here; /openapi.json lists what there is" if is_missing else "use another method"
    return _error(error.status_code, text, error.headers)


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"][:4])
    return f"{place}: {first['msg'].lower()}" if place else f"the request: {first['msg'].lower()}"


FEWEST, MOST = 3, 5
SENTENCES = (
    "she saw the girl with the telescope",
    "he fed her cat food",
    "time flies like an arrow",
    "the man with the dog saw the boy on the hill",
    "I can't believe it's over.",
    "my old dog followed the cat in the garden",
    "the old man sees a dog near the river",
    "a girl gave the book to her friend",
)


def examples_of(run: Run) -> list[str]:
    """Return sentences whose words the run knows, the first of which the page opens with.

    A run that knows few of them, such as one of another language, has sentences that it makes itself.
    """
    fitting = [text for text in SENTENCES if _knows(run, text)]
    if len(fitting) < FEWEST and run.shares_rules:
        drawn = run.sample(4 * FEWEST, max_length=12, seed=1).trees
        fitting += [" ".join(one.tree.words) for one in drawn if len(one.tree.words) > 3]
        return fitting[:FEWEST]
    return fitting[:MOST]


def _knows(run: Run, sentence: str) -> bool:
    """Return whether the run knows all words but one: an unknown word has a class of its own, and may be shown."""
    tokens = run.preprocessing.apply(run.preprocessing.split(sentence)).tokens
    return sum(not run.vocabulary.knows(token) for token in tokens) <= 1
