"""Scores of sentences with unknown words: the spelling counts, unless the vocabulary is closed."""

import math
from pathlib import Path

import pytest

from simplepcfg import fit, load
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.inference.run import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = [" ".join(tree.words) for tree in generate_treebank(200, seed=3)]
    sizes = {"model.nonterminals": 4, "model.preterminals": 8, "model.embedding": 8, "data.min_count": 2}
    out = tmp_path_factory.mktemp("runs") / "run"
    fit(text, settings={**sizes, "training.epochs": 1}, out=out)
    return out


def test_an_unknown_word_is_less_probable_than_its_class(folder: Path) -> None:
    run, closed = load(folder), load(folder, closed_vocabulary=True)
    known, unknown, other = "the dog followed the cat", "the dog followed the xqzt", "the dog followed the tzqxx"
    assert run.score([known]) == closed.score([known])
    assert closed.score([unknown]) == closed.score([other])
    assert run.score([unknown])[0] < closed.score([unknown])[0] - 5
    assert run.score([unknown]) != run.score([other])


def test_surprisals_sum_to_the_score(folder: Path) -> None:
    run = load(folder)
    sentence = "the xqzt followed the cat"
    records = run.surprisal([sentence])[0]
    assert sum(item.surprisal or 0 for item in records) == pytest.approx(-run.score([sentence])[0], rel=1e-5)
    assert records[1].token == "<unk>"


def test_completion_counts_the_spelling_of_its_prefix(folder: Path) -> None:
    run, closed = load(folder), load(folder, closed_vocabulary=True)
    prefix = "the xqzt followed"
    expected = -sum(item.surprisal or 0 for item in run.surprisal([prefix], ends=False)[0])
    assert run.complete(prefix).log_probability == pytest.approx(expected, rel=1e-5)
    assert run.complete(prefix).log_probability < closed.complete(prefix).log_probability - 5
    assert run.complete(prefix).words == closed.complete(prefix).words


def test_perplexity_with_spellings_is_that_of_the_scores(folder: Path) -> None:
    run, closed = load(folder), load(folder, closed_vocabulary=True)
    sentences = ["the xqzt followed the cat", "the dog followed the tzqxx", "dog"]
    report = run.evaluate(sentences)
    assert report.perplexity is not None
    assert report.open_vocabulary is not None
    tokens = report.perplexity.tokens
    expected = math.exp(-sum(run.score(sentences)[:2]) / tokens)  # one word has no tree
    assert report.open_vocabulary.perplexity == pytest.approx(expected, rel=1e-5)
    assert report.open_vocabulary.characters == sum(len(sentence) + 1 for sentence in sentences[:2])
    assert report.perplexity.perplexity == closed.evaluate(sentences).perplexity.perplexity  # type: ignore[union-attr]
    assert closed.evaluate(sentences).open_vocabulary is None


def test_a_saved_run_keeps_its_spellings(folder: Path, tmp_path: Path) -> None:
    run = load(folder)
    for closed in (False, True):
        again = load(load(folder, closed_vocabulary=closed).save(tmp_path / f"copy-{closed}"))
        assert again.score(["the xqzt followed the cat"]) == run.score(["the xqzt followed the cat"])


def test_a_run_without_spellings_scores_the_class(folder: Path) -> None:
    run, closed = load(folder), load(folder, closed_vocabulary=True)
    without = Run(run.model, run.vocabulary, run.config)
    assert without.score(["the xqzt"]) == closed.score(["the xqzt"])
