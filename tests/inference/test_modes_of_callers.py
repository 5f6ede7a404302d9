"""A run answers, and `fit` trains, alike whatever modes of torch the caller has set."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import simplepcfg
from tiny_runs import SETTINGS, tiny_sentences

pytestmark = pytest.mark.usefixtures("one_thread")
SENTENCES = ["The old dog slept by the fire .", "the dog slept"]


@contextmanager
def default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def default_device() -> Iterator[None]:
    torch.set_default_device("meta")  # as good as a GPU: nothing can be computed there by mistake
    try:
        yield
    finally:
        torch.set_default_device(None)


MODES = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "default_dtype": default_dtype,
    "default_device": default_device,
}
Mode = Callable[[], AbstractContextManager[object]]


def answers(run: simplepcfg.Run) -> tuple[object, ...]:
    return (
        run.score(SENTENCES),
        run.parse(SENTENCES),
        run.parse(SENTENCES, decode="viterbi"),
        run.surprisal(SENTENCES),
        run.complete("The old", k=2),
        [table.tolist() for table in run.span_marginals(SENTENCES)],
        run.parse(SENTENCES[:1], [{"require": [[0, 3]]}]),
        run.chart(SENTENCES[0], symbols=1),
        run.bracketings(SENTENCES[1]),
        run.k_best(SENTENCES, 2),
        run.tags(SENTENCES),
        run.depths(SENTENCES),
        run.entropy(SENTENCES),
        simplepcfg.ensemble([run]).parse(SENTENCES),
        run.describe_symbol("NT-3"),
        run.symbols(SENTENCES, top=2),
        run.evaluate(SENTENCES, "text"),
    )


@pytest.fixture(scope="module")
def held() -> tuple[simplepcfg.Run, tuple[object, ...]]:
    run = simplepcfg.load("english", "cpu")
    return run, answers(run)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_answers(mode: Mode, held: tuple[simplepcfg.Run, tuple[object, ...]]) -> None:
    run, expected = held
    with mode():
        assert answers(run) == expected
        assert answers(simplepcfg.load("english", "cpu")) == expected


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_compound_run(mode: Mode, tmp_path: Path) -> None:
    sizes = {"nonterminals": 4, "preterminals": 6, "embedding": np.int64(8)}
    settings = {"model": sizes, "training.epochs": 1}  # tables are taken, too
    run = simplepcfg.fit(tiny_sentences(20), config="sc-pcfg", settings=settings, device="cpu")
    expected = run.sample(3, seed=1)
    with mode():
        assert run.sample(3, seed=1) == expected
        assert [tree for block in run.sample_blocks(3, seed=1) for tree in block.trees] == expected.trees
        run.save(tmp_path / "saved")
    assert simplepcfg.load(tmp_path / "saved", "cpu").sample(3, seed=1) == expected


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_fit(mode: Mode) -> None:
    settings = dict(setting.split("=") for setting in SETTINGS if "device" not in setting)
    given = {key: int(value) for key, value in settings.items()}
    text = tiny_sentences(30)
    expected = simplepcfg.fit(text, config="sn-pcfg-small", settings=given, device="cpu").score(text)
    with mode():
        assert simplepcfg.fit(text, config="sn-pcfg-small", settings=given, device="cpu").score(text) == expected
