"""Unknown words in n-gram models: their spelling counts, as it does in a run."""

import math
from pathlib import Path

import pytest

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.inference.evaluation import evaluate_ngram
from simplepcfg.inference.word_models import load_word_model
from simplepcfg.linguistics.controls.ngram_files import load_ngram, save_ngram
from simplepcfg.linguistics.controls.ngram_training import train_ngram
from simplepcfg.linguistics.controls.text import read_control_text
from simplepcfg.runs.config.schema import DataConfig
from simplepcfg.runs.corpus import prepare_corpus
from tiny_runs import make_tiny_run, tiny_sentences

TEXT = [sentence.lower().split() for sentence in tiny_sentences(60)]
SENTENCE, OTHER = ["the", "dog", "xqzt", "the", "child"], ["the", "dog", "tzqxx", "the", "child"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    corpus = prepare_corpus(DataConfig(min_count=2), 0, TEXT)
    path: Path = tmp_path_factory.mktemp("controls") / "model.safetensors"
    save_ngram(train_ngram(TEXT, corpus.vocabulary, Preprocessing(), spelling=corpus.spelling), path)
    return path


def test_scores_and_surprisals_count_spellings(file: Path) -> None:
    model, closed = load_word_model(str(file)), load_word_model(str(file), closed_vocabulary=True)
    spelling = load_ngram(file).spelling
    assert spelling is not None
    gap = model.score([SENTENCE])[0] - closed.score([SENTENCE])[0]
    assert gap == pytest.approx(spelling.log_probability("xqzt"), rel=1e-9)
    assert model.score([SENTENCE]) != model.score([OTHER])
    assert closed.score([SENTENCE]) == closed.score([OTHER])
    (records,) = model.surprisal([SENTENCE])
    assert records[2].token == "<unk>"
    assert -sum(record.surprisal or 0 for record in records) == pytest.approx(model.score([SENTENCE])[0], rel=1e-6)
    known = ["the", "dog"]
    assert model.score([known]) == closed.score([known])


def test_perplexity_per_word_and_character(file: Path) -> None:
    model = load_ngram(file)
    report = evaluate_ngram(model, [SENTENCE, ["the", "dog"]], "model")
    closed, spelled = report.perplexity, report.open_vocabulary
    assert closed is not None
    assert spelled is not None
    assert spelled.log_likelihood == pytest.approx(sum(model.score([SENTENCE, ["the", "dog"]])), rel=1e-9)
    assert spelled.tokens == closed.tokens == 9
    assert spelled.characters == len("the dog xqzt the child ") + len("the dog ")
    assert spelled.character_perplexity == pytest.approx(math.exp(-spelled.log_likelihood / spelled.characters))
    assert spelled.perplexity > closed.perplexity
    assert evaluate_ngram(model, [["the", "<unk>"]], "model").open_vocabulary is None
    assert report.to_dict()["character_perplexity"] == spelled.character_perplexity


def test_a_control_like_a_run_has_its_spellings(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(map(" ".join, TEXT)))
    run = make_tiny_run(tmp_path / "run", "data.min_count=3")
    like = read_control_text(str(run), str(text)).spelling
    assert isinstance(like, SpellingModel)
    expected = load_word_model(str(run)).spelling  # type: ignore[attr-defined]
    assert like.log_probability("xqzt") == expected.log_probability("xqzt")
    (run / "spelling.safetensors").unlink()  # as runs of earlier versions
    assert read_control_text(str(run), str(text)).spelling is None
