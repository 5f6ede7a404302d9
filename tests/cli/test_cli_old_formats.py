"""Run folders of earlier versions load and give the numbers that they gave, or are refused in one line."""

import json
from pathlib import Path

import pytest

import simplepcfg
from command_calls import Call
from simplepcfg.errors import InputError

FIXTURES = Path(__file__).parent.parent / "fixtures"
FOLDERS = FIXTURES / "runs-0.1"
KEPT = [FOLDERS / "tn-pcfg", *sorted((FIXTURES / "runs-0.2").iterdir())]
REFUSED = sorted(folder.name for folder in FOLDERS.iterdir() if folder not in KEPT)


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_a_model_that_is_as_it_was(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    assert simplepcfg.load(folder).score(expected["sentences"]) == pytest.approx(expected["scores"], rel=1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_other_networks_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r'config.toml: the key "model\.\w+" is gone.*must be trained again') as caught:
        simplepcfg.load(FOLDERS / name)
    assert "\n" not in str(caught.value)


def test_the_command_line_refuses_in_one_line(call: Call) -> None:
    outcome = call("score", FOLDERS / "sn-pcfg", "-", stdin="the dog\n")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert "must be trained again" in outcome.err
