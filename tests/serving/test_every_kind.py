"""A model of every kind answers what it says it can, and refuses the rest in one line."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

import simplepcfg
from simplepcfg.serving.app import make_app
from simplepcfg.serving.questions import QUESTIONS

STORED = sorted((Path(__file__).parents[1] / "fixtures" / "runs").iterdir())


@pytest.mark.parametrize("folder", STORED, ids=lambda path: path.name)
def test_questions_of_every_kind(folder: Path) -> None:
    run = simplepcfg.load(folder, "cpu")
    client = TestClient(make_app({"stored": run}, workers=1), base_url="http://localhost")
    (described,) = client.get("/api/runs").json()["runs"]
    words = [word for word in run.vocabulary.words if word.isalpha()][:4]
    sentence = " ".join(words)
    for question in QUESTIONS:
        body: dict[str, object] = {"sentence": sentence}
        if question.name == "complete":
            body = {"prefix": sentence}
        elif question.name == "describe_symbol":
            body = {"symbol": "NT-1"}
        elif question.name == "chart":
            body["symbols"] = 3
        answer = client.post(f"/api/{question.name}", json=body)
        if question.name in described["questions"]:
            assert answer.status_code == 200, (question.name, answer.text)
        else:
            assert answer.status_code == 400, (question.name, answer.text)
            assert str(folder) not in answer.text
