"""Arguments of the wrong kind are refused in one line that names the value."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

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
        (lambda run: run.score([{"text": "the dog", "id": 3}]), "sentence 0 is a row of columns (text, id); give one"),
        (lambda run: run.score(run.parse(SENTENCE)[0]), "sentences is a single tree; give a list of trees"),
        (lambda run: run.evaluate("the dog\nslept"), "'the dog\\nslept' is a text of 13 characters, no file"),
        (lambda run: simplepcfg.ensemble(run), "give a list of runs or folders"),
        (lambda run: simplepcfg.ensemble(None), "runs is None; give a list of runs or folders"),
        (lambda run: simplepcfg.ensemble([None]), "None is no run"),
        (lambda run: simplepcfg.load("english", device=None), 'device "None" is unknown'),
        (lambda run: run.sample(1, seed=1.5), "seed = 1.5; give one from 0"),
        (
            lambda run: simplepcfg.fit(SENTENCE, settings=["training.epochs"]),
            "settings is ['training.epochs']; give keys",
        ),
        (
            lambda run: simplepcfg.fit("the dog\nslept"),
            "is a text of 13 characters, no file; give a list of its sentences",
        ),
        (lambda run: run.parse([["the", "", "dog"]]), "sentence 0: one of its words is empty"),
        (lambda run: run.parse([["the", 3]]), "sentence 0: 3 is not a string"),
        (lambda run: run.k_best(SENTENCE, 2.0), "k = 2.0; ask for 1 to"),
        (lambda run: run.k_best(SENTENCE, "2"), "k = '2'; ask for 1 to"),
        (lambda run: run.sample(1, max_length=2.5), "max_length = 2.5; give a whole number"),
        (lambda run: run.bracketings("the dog", k=1.5), "k = 1.5; give a whole number"),
        (lambda run: run.parse(SENTENCE, [{"bonus": [[0, 2, 10**400]]}]), "the bonus must be a number from"),
        (lambda run: simplepcfg.fit(SENTENCE, settings={"seed": torch.ones(2)}), "give a string, a number"),
        (lambda run: simplepcfg.ensemble([run]).evaluate("(S a)\n(S b)"), "is a text of 11 characters, no file"),
        (lambda run: run.sample(1.5), "count = 1.5; give a whole number, 1 or more"),
        (lambda run: run.complete("the", k=1.5), "k = 1.5; give a whole number, 0 or more"),
        (lambda run: run.chart("the dog", symbols=1.5), "symbols = 1.5; give a whole number, 0 or more"),
        (lambda run: run.symbols(SENTENCE, top=None), "top = None; give a whole number, 1 or more"),
        (lambda run: run.describe_symbol(3), "3"),
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


def test_numbers_of_numpy_are_numbers(run: simplepcfg.Run) -> None:
    two, bonus = np.int64(2), np.float32(1.5)
    asked = {"require": [[0, 2]], "bonus": [[0, 2, 1.5]]}
    like = {"require": [[two - 2, two]], "bonus": [[0, two, bonus]]}
    assert run.score(SENTENCE, [like]) == run.score(SENTENCE, [asked])
    assert run.k_best(SENTENCE, two) == run.k_best(SENTENCE, 2)
    assert run.sample_trees(SENTENCE, 2, seed=two) == run.sample_trees(SENTENCE, 2, seed=2)
