"""Arguments of the wrong kind are refused in one line that names the value."""

from collections.abc import Callable
from typing import Any

import pytest

import simplepcfg
from simplepcfg.errors import InputError

SENTENCE = ["the dog slept"]


@pytest.fixture(scope="module")
def run() -> simplepcfg.Run:
    return simplepcfg.load("english", device="cpu")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda run: run.parse("the dog"), "sentences is the single string 'the dog'"),
        (lambda run: run.score(b"the dog"), "sentences is b'the dog'"),
        (lambda run: run.score({"text": SENTENCE}), "sentences is a dict; give its sentences as a list"),
        (lambda run: run.parse([["the", "", "dog"]]), "sentence 0: one of its words is empty"),
        (lambda run: run.parse([["the", 3]]), "sentence 0: 3 is not a string"),
        (lambda run: run.k_best(SENTENCE, 2.0), "k = 2.0; ask for 1 to"),
        (lambda run: run.k_best(SENTENCE, "2"), "k = '2'; ask for 1 to"),
        (lambda run: run.sample_trees(SENTENCE, 0), "samples = 0; ask for 1 to"),
        (lambda run: simplepcfg.load(None), "None is no run"),
        (lambda run: simplepcfg.split_raw(["a"]), "['a'] is not a string"),
        (lambda run: simplepcfg.split_raw(b"a"), "b'a' is not a string"),
    ],
)
def test_arguments_of_the_wrong_kind(run: simplepcfg.Run, ask: Callable[[Any], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        ask(run)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
