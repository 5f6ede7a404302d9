"""Run folders that were stored with their scores load and still give them."""

import json
from pathlib import Path

import pytest

import simplepcfg

STORED = sorted((Path(__file__).parents[1] / "fixtures" / "runs").iterdir())


@pytest.mark.parametrize("folder", STORED, ids=lambda folder: folder.name)
def test_a_model_that_is_as_it_was(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    assert simplepcfg.load(folder).score(expected["sentences"]) == pytest.approx(expected["scores"], rel=1e-5)
