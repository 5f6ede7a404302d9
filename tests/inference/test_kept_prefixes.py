"""Completions of a prefix that grows: the same answers as those of a run that has seen no prefix before."""

from pathlib import Path

import pytest

import simplepcfg
from simplepcfg.inference import kept_prefixes
from simplepcfg.ops.prefix.growing import GrowingPrefix
from tiny_runs import make_tiny_run, tiny_sentences

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_prefix_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_tiny_run(tmp_path / "run")
    run = simplepcfg.load(folder, "cpu")
    words = max(tiny_sentences(9), key=len).split()
    prefixes = [*(words[:m] for m in range(len(words) + 1)), words[:2], words[::-1][:3], words[:2]]
    answers = [run.complete(prefix, 5, samples=2) for prefix in prefixes]
    assert len(run.prefixes.states) == kept_prefixes.MOST_PREFIXES
    monkeypatch.setattr(kept_prefixes, "EMISSION_BYTES", 0)  # words without a table of all of them
    for prefix, answer in zip(prefixes, answers, strict=True):
        fresh = simplepcfg.load(folder, "cpu").complete(prefix, 5, samples=2)
        assert answer.log_probability == pytest.approx(fresh.log_probability, abs=1e-4)
        assert [word for word, _ in answer.words] == [word for word, _ in fresh.words]
        assert [p for _, p in answer.words] == pytest.approx([p for _, p in fresh.words], rel=1e-4)
        assert answer.end == pytest.approx(fresh.end, rel=1e-4)


def test_many_words_more_are_charted_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simplepcfg.load(make_tiny_run(tmp_path / "run"), "cpu")
    words = " ".join(tiny_sentences(9)).split()[:20]
    run.complete(words[:2])
    one_by_one: list[int] = []
    push = GrowingPrefix.push
    monkeypatch.setattr(GrowingPrefix, "push", lambda self, word: (one_by_one.append(1), push(self, word)))
    run.complete(words)
    assert not one_by_one
    run.complete([*words, *words[:3]])
    assert len(one_by_one) == 3


def test_a_hidden_markov_model_has_no_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"model.states": 4, "model.embedding": 8, "training.epochs": 1}
    run = simplepcfg.fit(tiny_sentences(20), config="hmm-4096", settings=settings, device="cpu")
    words = " ".join(tiny_sentences(9)).split()[:20]
    run.complete(words[:9])
    state = run.prefixes.states[tuple(run.vocabulary.encode(words[:9]))]
    pushed: list[int] = []
    push = type(state).push
    monkeypatch.setattr(type(state), "push", lambda self, word: (pushed.append(1), push(self, word)))
    run.complete(words)
    assert len(pushed) == 11
