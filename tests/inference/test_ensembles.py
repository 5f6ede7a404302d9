"""Ensembles: their trees against enumeration, and different kinds of models together."""

import math
from itertools import product
from pathlib import Path

import pytest

import simplepcfg
from simplepcfg import Run
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.errors import InputError
from tiny_runs import make_tiny_run, tiny_sentences

SENTENCES = ["The dog , sees a cat .", "dog", "", *tiny_sentences(5, seed=4)]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with the same validation text and one with another kind, size and vocabulary."""
    folder = tmp_path_factory.mktemp("members")
    make_tiny_run(folder / "seed-2")
    make_tiny_run(folder / "seed-10", "training.epochs=3")
    dense = ["model.kind=n-pcfg", "model.nonterminals=3", "model.preterminals=5", "data.min_count=3", "seed=5"]
    make_tiny_run(folder / "seed-11", *dense)
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[Run]:
    return simplepcfg.ensemble([folder], "cpu").runs


def all_trees(i: int, j: int) -> list[frozenset[tuple[int, int]]]:
    if j - i == 1:
        return [frozenset()]
    return [
        frozenset({(i, j)}) | left | right
        for k in range(i + 1, j)
        for left, right in product(all_trees(i, k), all_trees(k, j))
    ]


def test_a_folder_stands_for_its_runs_in_order(runs: list[Run]) -> None:
    assert [Path(run.name).name for run in runs] == ["seed-2", "seed-10", "seed-11"]


def test_the_geometric_mean_by_hand(runs: list[Run]) -> None:
    sentences = [s for s in tiny_sentences(60, seed=8) if 4 <= len(s.split()) <= 7][:6]
    group = simplepcfg.ensemble(runs)
    tables = [run.span_marginals(sentences) for run in runs]
    for number, tree in enumerate(group.parse_spans(sentences)):

        def total(spans: frozenset[tuple[int, int]], place: int = number) -> float:
            chances = [[float(table[place][i, j]) + 1e-3 for table in tables] for i, j in spans]
            return sum(math.prod(each) ** (1 / len(each)) for each in chances)

        best = max(total(spans) for spans in all_trees(0, len(tree.words)))
        assert total(frozenset((i, j) for i, j, _ in tree.spans)) == pytest.approx(best)


def test_equal_runs_are_one_run(runs: list[Run]) -> None:
    assert simplepcfg.ensemble([runs[0], runs[0]]).parse_spans(SENTENCES) == runs[0].parse_spans(SENTENCES)


def test_a_hidden_markov_model_is_refused(runs: list[Run]) -> None:
    settings = {"model.states": 4, "model.embedding": 8, "training.epochs": 1}
    chain = simplepcfg.fit(tiny_sentences(20), config="hmm-4096", settings=settings, device="cpu")
    with pytest.raises(InputError, match="of kind hmm, which has no trees; leave it out"):
        simplepcfg.ensemble([*runs, chain])


def test_reports(runs: list[Run]) -> None:
    report = simplepcfg.ensemble(runs).evaluate(generate_treebank(10, seed=3))
    assert report.name == "geometric mean of 3 runs"
    assert report.sentence_f1 is not None
