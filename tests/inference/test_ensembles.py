"""Ensembles: what each run counts, votes of trees against enumeration, and different kinds of models together."""

import math
from itertools import product
from pathlib import Path

import pytest

import simplepcfg
from simplepcfg import Run
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.errors import InputError
from simplepcfg.evaluation.baselines import left_branching, right_branching
from simplepcfg.inference.ensembles import Ensemble
from simplepcfg.inference.member_weights import agreement_weights
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


@pytest.mark.parametrize("weigh", ["equal", "agreement"])
def test_the_geometric_mean_by_hand(runs: list[Run], weigh: str) -> None:
    sentences = [s for s in tiny_sentences(60, seed=8) if 4 <= len(s.split()) <= 7][:6]
    group = simplepcfg.ensemble(runs, weigh=weigh)
    weights = group.weights(sentences)
    assert math.fsum(weights) == pytest.approx(1)
    tables = [run.span_marginals(sentences) for run in runs]
    for number, tree in enumerate(group.parse_spans(sentences)):

        def total(spans: frozenset[tuple[int, int]], place: int = number) -> float:
            chances = [[float(table[place][i, j]) + 1e-3 for table in tables] for i, j in spans]
            return sum(math.prod(p**weight for p, weight in zip(each, weights, strict=True)) for each in chances)

        best = max(total(spans) for spans in all_trees(0, len(tree.words)))
        assert total(frozenset((i, j) for i, j, _ in tree.spans)) == pytest.approx(best)


def test_agreement_by_hand() -> None:
    right, left = right_branching(4), left_branching(4)  # inside: (1, 4), (2, 4) and (0, 3), (0, 2)
    both = [(0, 4), (0, 2), (2, 4)]  # shares one of two spans with either
    assert agreement_weights([[right]]) == [1.0]
    assert agreement_weights([[right], [right], [left]]) == pytest.approx([0.5, 0.5, 0.0])
    assert agreement_weights([[right], [left], [both]]) == pytest.approx([0.25, 0.25, 0.5])
    assert agreement_weights([[right], [left]]) == [0.5, 0.5]  # they agree on nothing
    assert agreement_weights([[[]], [[]]]) == [0.5, 0.5]


@pytest.mark.parametrize("by", ["geometric", "arithmetic"])
def test_equal_runs_are_one_run(runs: list[Run], by: str) -> None:
    alone = runs[0].parse_spans(SENTENCES)
    for weigh in ("equal", "agreement"):
        assert simplepcfg.ensemble([runs[0], runs[0]], by=by, weigh=weigh).parse_spans(SENTENCES) == alone


def test_a_weight_of_nothing_leaves_a_run_out(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ensemble, "_weights", lambda *_: [0.0, 1.0, 0.0])
    for by in ("geometric", "arithmetic"):
        group = Ensemble(runs, by=by, weigh="agreement")
        assert group.parse_spans(SENTENCES) == runs[1].parse_spans(SENTENCES)


def test_blocks_constraints_and_reports(runs: list[Run]) -> None:
    group = simplepcfg.ensemble(runs, by="arithmetic", weigh="agreement")
    together = [tree for block in group.parse_blocks(SENTENCES) for tree in block]
    assert together == group.parse_spans(SENTENCES)
    asked = {"require": [[1, 5]], "forbid": [[3, 5]]}
    spans = {(i, j) for i, j, _ in group.parse_spans(SENTENCES[:1], [asked])[0].spans}
    assert (1, 5) in spans
    assert (3, 5) not in spans
    report = group.evaluate(generate_treebank(10, seed=3))
    assert report.name == "arithmetic mean of 3 runs, by agreement"
    assert report.sentence_f1 is not None


def test_unknown_choices(runs: list[Run]) -> None:
    with pytest.raises(InputError, match="by = 'symbols'"):
        simplepcfg.ensemble(runs, by="symbols")
    with pytest.raises(InputError, match="weigh = 'gold'"):
        simplepcfg.ensemble(runs, weigh="gold")
