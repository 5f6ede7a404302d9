"""What Python says of text: unknown words, untokenised words and several sentences in one, once for every run."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from simplepcfg import TextWarning, load
from simplepcfg.data.brackets import parse_tree
from simplepcfg.inference.run import Run
from tiny_runs import make_tiny_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_run(tmp_path_factory.mktemp("runs") / "run", "data.tokenize=true")


def told(ask: Callable[[], object]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ask()
    return [one for one in caught if issubclass(one.category, TextWarning)]


QUESTIONS: list[Callable[[Run, str], object]] = [
    lambda run, text: run.score([text]),
    lambda run, text: run.surprisal([text]),
    lambda run, text: run.parse([text]),
    lambda run, text: run.tags([text]),
    lambda run, text: run.complete(text),
    lambda run, text: run.span_marginals([text]),
]


@pytest.mark.parametrize("ask", QUESTIONS)
def test_unknown_words(folder: Path, ask: Callable[[Run, str], object]) -> None:
    run = load(folder)
    (one,) = told(lambda: ask(run, "the xyzzy followed the dog"))
    assert str(one.message) == f"{folder}: not in the vocabulary, hence <unk>: 1 of 5 words (20.0 %): xyzzy"
    assert one.filename == __file__  # where the run was asked, not where it answers
    assert told(lambda: ask(run, "the xyzzy followed the dog")) == []  # once
    assert told(lambda: ask(load(folder), "the child followed the dog")) == []


@pytest.mark.parametrize("ask", QUESTIONS)
def test_several_sentences(folder: Path, ask: Callable[[Run, str], object]) -> None:
    one, *_ = told(lambda: ask(load(folder), "The dog followed the child. The child followed the dog."))
    assert "several sentences on a line, as in `child. The`; simplepcfg.split_raw" in str(one.message)


def test_untokenised_words(folder: Path) -> None:
    one, *_ = told(lambda: load(folder).parse([["The", "dog", "followed", "the", "child."]]))
    assert "looks untokenised" in str(one.message)
    assert told(lambda: load(folder).parse(["The dog followed the child."])) == []
    tree = parse_tree("(S (NP (DT the) (NN man.)) (VP (VBZ sees) (NNS dogs)))")
    assert not [one for one in told(lambda: load(folder).parse([tree])) if "untokenised" in str(one.message)]


def test_warnings_can_be_filtered(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", TextWarning)
        load(folder).score(["the xyzzy"])
        warnings.simplefilter("error", TextWarning)
        with pytest.raises(TextWarning, match="xyzzy"):
            load(folder).score(["the xyzzy"])
