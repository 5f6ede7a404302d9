"""Punctuation that preprocessing drops, as a prior over trees."""

from bisect import bisect_left
from pathlib import Path

import pytest
import torch

from simplepcfg import ensemble, load
from simplepcfg.data.batching import collate
from simplepcfg.data.preprocessing import Preprocessing, is_separator
from simplepcfg.data.separators import crossing_spans, separator_places
from simplepcfg.data.tokens import read_breaks, read_tokens
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.corpus import prepare_corpus
from simplepcfg.runs.run_folder import load_run
from simplepcfg.training.start import train
from simplepcfg.training.step.span_prior import punctuation_note, punctuation_prior
from simplepcfg.training.teachers import Teacher, TeacherMarginals
from tiny_runs import SETTINGS

SENTENCES = [
    "the dog , which barks , sees a cat .",  # breaks before which (2) and sees (4)
    "he paid $ 5 -- N % -- well-known",  # $ and % are no separators: N (3) and well-known (4)
    "( yes ) he sleeps",  # before he (1): what begins the sentence separates nothing
    "they sleep",
]


@pytest.mark.parametrize("form", ["memory", "file", "trees"])
def test_places_of_separators(tmp_path: Path, form: str) -> None:
    source: object = SENTENCES
    if form == "file":
        source = tmp_path / "text.txt"
        source.write_text("\n".join(SENTENCES) + "\n")
    if form == "trees":
        source = [SpanTree.from_spans(text.split(), []) for text in SENTENCES]
    preprocessing = Preprocessing()
    breaks = list(read_breaks(source, preprocessing))  # type: ignore[arg-type]
    assert breaks == [[2, 4], [3, 4], [1], []]
    lengths = [len(tokens) for tokens in read_tokens(source, preprocessing)]  # type: ignore[arg-type]
    assert lengths == [7, 5, 3, 2]


@pytest.mark.parametrize(
    ("word", "separates"), [(",", True), ("-LRB-", True), ("``", True), ("...", True), ("-", False), ("%", False)]
)
def test_separators(word: str, separates: bool) -> None:
    assert is_separator(word) == separates


def test_prior_by_hand() -> None:
    """A sentence of 5 words with a comma before word 2, and one of 3 words without."""
    batch = collate([[1] * 5, [1] * 3], [0, 1])
    prior = punctuation_prior(1.5, [[2], []], batch)
    assert prior is not None
    assert punctuation_prior(0.0, [[2], []], batch) is None
    crossing = {(i, j) for _, i, j in prior.bonus.nonzero().tolist()}
    assert crossing == {(1, 3), (1, 4)}  # (0, 3) and (1, 5) end at an end of the sentence, (2, 4) begins at the comma
    assert prior.bonus[0, 1, 3] == -1.5
    assert not prior.bonus[1].any()
    assert prior.most.tolist() == [0, 0]


def test_training(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the dog , a cat , sees it .\nit sees , a dog , the cat\n" * 10)
    base = [*SETTINGS, f'data.train="{text}"', f'data.valid="{text}"']
    for weight in (0, 3):
        config = load_config("sn-pcfg-small", [*base, f"training.punctuation_weight={weight}"], environment={})
        train(config, tmp_path / str(weight))
    plain, informed = (load_run(tmp_path / name, "cpu").model.state_dict() for name in "03")
    assert not all(torch.equal(plain[name], informed[name]) for name in plain)
    corpus = prepare_corpus(config.data, 0, keep_breaks=True)
    assert corpus.train_breaks is not None
    assert [corpus.train_breaks[0], corpus.train_breaks[1]] == [[2, 4], [2, 4]]
    silent = prepare_corpus(config.data, 0, ["the dog sees it"] * 3, keep_breaks=True)
    assert "has no effect" in (punctuation_note(config.training, silent.train_breaks) or "")
    assert punctuation_note(config.training, corpus.train_breaks) is None
    with pytest.raises(InputError, match="the training text is read again"):
        prepare_corpus(config.data, 0, iter(["the dog , it sees"]), keep_breaks=True)
    changed = [f'data.train="{text}"', "training.punctuation_weight=1", "model.states=4"]
    hmm = load_config("hmm-4096", changed, environment={})
    with pytest.raises(InputError, match=r"punctuation_weight = 1\.0: a model of kind hmm has no trees"):
        train(hmm, tmp_path / "hmm")


def test_trees_that_take_notice_of_punctuation(tmp_path: Path) -> None:
    """With a large weight no span of a chosen tree crosses a separator; log p and the most probable trees stay."""
    text = tmp_path / "text.txt"
    text.write_text("the dog , a cat , sees it .\nit sees , a dog , the cat\n" * 10)
    settings = [*SETTINGS, f'data.train="{text}"', f'data.valid="{text}"', "data.separator_weight=50"]
    train(load_config("sn-pcfg-small", settings, environment={}), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    plain = load(tmp_path / "run", "cpu")
    plain.config = plain.config.model_copy(
        update={"data": plain.config.data.model_copy(update={"separator_weight": 0.0})}
    )
    sentences = ["it sees a dog , the cat sees it", "the dog sees it", "a , b c , d e f , g"]
    for sentence, tree in zip(sentences, run.parse_spans(sentences), strict=True):
        words = sentence.split()
        kept = [place for place, word in enumerate(words) if word != ","]
        spans = {(bisect_left(kept, i), bisect_left(kept, j)) for i, j, *_ in tree.spans}
        crossing = crossing_spans([separator_places(words, kept)], len(kept), torch.tensor([len(kept)]))[0]
        assert not any(crossing[i, j] for i, j in spans)
    assert run.parse_spans(sentences) != plain.parse_spans(sentences)
    assert run.parse_spans(sentences[1:2]) == plain.parse_spans(sentences[1:2])
    assert run.score(sentences) == plain.score(sentences)
    assert run.parse_spans(sentences, decode="viterbi") == plain.parse_spans(sentences, decode="viterbi")
    assert ensemble([tmp_path / "run"]).parse_spans(sentences) == run.parse_spans(sentences)
    gold = run.parse_spans(sentences)
    assert run.evaluate(gold).sentence_f1 == 100
    plain.config = plain.config.model_copy(
        update={"data": plain.config.data.model_copy(update={"separator_weight": 0.0, "branching_bonus": 1.0})}
    )
    assert [span[:2] for span in plain.parse_spans(["it sees a dog"])[0].spans] == [(0, 4), (1, 4), (2, 4)]
    assert plain.evaluate(gold).sentence_f1 < 100


def test_teachers_take_notice_of_punctuation(tmp_path: Path) -> None:
    """A teacher with a large weight teaches no span that crosses a separator."""
    text = tmp_path / "text.txt"
    text.write_text("the dog , a cat , sees it .\nit sees the dog\n" * 10)
    base = [*SETTINGS, f'data.train="{text}"', f'data.valid="{text}"']
    train(load_config("sn-pcfg-small", [*base, "data.separator_weight=50"], environment={}), tmp_path / "teacher")
    taught = [*base, f'training.teacher=["{tmp_path / "teacher"}"]', "training.teacher_weight=5"]
    train(load_config("sn-pcfg-small", taught, environment={}), tmp_path / "student")
    teacher = load_run(tmp_path / "teacher", "cpu")
    sentences = [["the", "dog", "a", "cat", "sees", "it"], ["it", "sees", "the", "dog"]]
    informed = Teacher(teacher).span_marginals(sentences, [[2, 4], []])
    plain = Teacher(teacher).span_marginals(sentences)
    assert torch.equal(informed[1], plain[1])
    assert informed[0][1, 5] < 1e-9 < plain[0][1, 5]
    file = tmp_path / "student" / "teacher.safetensors"
    lengths = [6, 4] * 10
    identity = {
        "teachers": [str(tmp_path / "teacher")],
        "train": prepare_corpus(teacher.config.data, 0).train.fingerprint(),
    }
    kept = TeacherMarginals.load(file, lengths, identity)
    torch.testing.assert_close(kept.of([0], 6)[0], informed[0], atol=1e-3, rtol=0)
