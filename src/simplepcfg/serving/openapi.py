"""The OpenAPI document of the JSON interface, made from its messages."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from simplepcfg.files import Record
from simplepcfg.serving.messages import ErrorReply, RunsReply
from simplepcfg.serving.questions import QUESTIONS
from simplepcfg.version import __version__

_ERRORS = {
    "400": "The request is no JSON object of this form, or what it asks for cannot be.",
    "404": "There is no such run.",
    "413": "The body is too large.",
    "415": "The body is not sent as application/json.",
    "429": "Too many requests; wait for the seconds of Retry-After.",
    "503": "Too many requests are waiting, or too little memory is left.",
}


def openapi_document() -> Record:
    """Return the OpenAPI 3.1 document of the interface: one POST for each question, and the list of runs."""
    models: list[type[BaseModel]] = [RunsReply, ErrorReply]
    models += [model for question in QUESTIONS for model in (question.request, question.reply)]
    names, definitions = models_json_schema(
        [(model, "validation") for model in dict.fromkeys(models)], ref_template="#/components/schemas/{model}"
    )

    def schema(model: type[BaseModel]) -> Record:
        return {"application/json": {"schema": names[model, "validation"]}}

    errors = {code: {"description": text, "content": schema(ErrorReply)} for code, text in _ERRORS.items()}
    paths: Record = {
        "/api/runs": {
            "get": {
                "operationId": "runs",
                "summary": "The runs that can be asked.",
                "responses": {"200": {"description": "All runs.", "content": schema(RunsReply)}},
            }
        }
    }
    for question in QUESTIONS:
        paths[f"/api/{question.name}"] = {
            "post": {
                "operationId": question.name,
                "summary": question.summary,
                "description": f"As `Run.{question.name}` of the Python interface.",
                "requestBody": {"required": True, "content": schema(question.request)},
                "responses": {"200": {"description": "The answer.", "content": schema(question.reply)}, **errors},
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "simplepcfg", "version": __version__, "description": "Questions to trained grammars."},
        "paths": paths,
        "components": {"schemas": definitions["$defs"]},
    }
