"""A little of the fuzzing that tests/attack.py does at length, and every input that ever caused a finding."""

from pathlib import Path

import pytest

from attacks.fuzz_targets import Targets
from attacks.fuzzing import fuzz
from simplepcfg.errors import InputError
from simplepcfg.plans.jobs import _prepared_settings

# Target and input of what fuzzing found; each ended in a traceback once, or text was lost.
FINDINGS = {
    "a number too long for Python": ("configuration", b"model.nonterminals=" + b"9" * 5000),
    "a number too long in the file": ("configuration", b"\n[model]\nnonterminals = " + b"9" * 5000),
    "a list too deep in an override": ("configuration", b"training.betas=" + b"[" * 5000),
    "a list too deep in the file": ("configuration", b"\ndata = " + b"[" * 5000),
    "a result too deep": ("JSON of results", b"[" * 20_000 + b"\n"),
    "a result with a number too long": ("JSON of results", b'{"seed": ' + b"9" * 5000 + b"}\n"),
    "a result with an infinite seed": ("JSON of results", b'{"row": null, "language": "", "seed": -Infinity}\n'),
    "a text that is one comment of CoNLL-U": ("text reader", b"# text = a"),
    "a text of ten columns, the first a number": ("text reader", b"\t".join([b"1", *[b"the"] * 9])),
    "a tree in two brackets without labels": ("tree reader", b"( ( (S the)))"),
    "a text of ten columns, one of them empty": ("text reader", b"1\ta\t\t" + b"\t".join([b"the"] * 7)),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_findings_stay_fixed(name: str, tmp_path: Path) -> None:
    target, data = FINDINGS[name]
    assert Targets(tmp_path).all()[target](data) is None


@pytest.mark.parametrize("text", ["data = 3", "data = " + "[" * 5000, "x = " + "9" * 5000, "\0"])
def test_a_damaged_description_of_prepared_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "prepared.toml").write_text(text)
    with pytest.raises(InputError, match=r"prepared\.toml: damaged"):
        _prepared_settings(tmp_path / "prepared.toml")


def test_a_few_inputs_of_every_kind(tmp_path: Path) -> None:
    outcomes = fuzz(250, tmp_path)
    assert sum(outcome.tried for outcome in outcomes) >= 200
    assert [outcome.findings for outcome in outcomes if outcome.survived < outcome.tried] == []
