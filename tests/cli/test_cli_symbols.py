"""Trees with symbols and random sentences by the command line, of every kind of run whose grammar has them."""

import json
import math
from pathlib import Path

import pytest
from nltk.tree import Tree

from command_calls import Call
from simplepcfg import load
from tiny_runs import make_tiny_run

KINDS = {
    "n-pcfg": ["model.kind=n-pcfg", "model.init_logit_std=1"],
    "c-pcfg": ["model.kind=c-pcfg", "model.latent=3", "model.encoder=6"],
    "rank-pcfg": ["model.kind=rank-pcfg", "model.networks=residual", "model.rank=5", "model.init_logit_std=1"],
    "tn-pcfg": ["model.kind=tn-pcfg", "model.rank=5"],
    "sc-pcfg": ["model.kind=sc-pcfg", "model.latent=3", "model.encoder=6"],
}
COMPOUND = ("c-pcfg", "sc-pcfg")


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def run(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_run(tmp_path_factory.mktemp(kind) / "run", *KINDS[kind])


def test_sample(call: Call, kind: str, run: Path) -> None:
    arguments = ("sample", run, "--count", 6, "--max-length", 9, "--temperature", 0.8)
    result = call(*arguments, "--trees")
    assert result.code == 0, result.err
    trees = [Tree.fromstring(line) for line in result.lines]
    assert len(trees) == 6
    assert all(2 <= len(tree.leaves()) <= 9 and tree.label().startswith("NT-") for tree in trees)
    assert [" ".join(tree.leaves()) for tree in trees] == call(*arguments).lines
    assert result.out != call(*arguments, "--trees", "--seed", 1).out
    found = json.loads(call(*arguments, "--json", "-").out)
    if kind in COMPOUND:  # log p given the z that a sentence was drawn with, which nobody knows afterwards
        assert all(item["log_probability_nats"] < 0 for item in found["sentences"])
        return
    scores = load(run).score([" ".join(item["words"]) for item in found["sentences"]])
    for item, score in zip(found["sentences"], scores, strict=True):
        assert item["log_probability_nats"] <= score + 1e-4  # a tree is part of its sentence


def test_k_best(call: Call, run: Path, text_file: Path) -> None:
    result = call("parse", run, text_file, "--decode", "viterbi", "--k", 3, "--format", "json")
    assert result.code == 0, result.err
    best = call("parse", run, text_file, "--decode", "viterbi").lines
    for line, first in zip(result.lines, best, strict=True):
        trees = json.loads(line)["trees"]
        values = [tree["log_probability_nats"] for tree in trees]
        assert values == sorted(values, reverse=True)
        assert len({tree["tree"] for tree in trees}) == 3
        assert trees[0]["tree"] == first or math.isclose(values[0], values[1], abs_tol=1e-4)


def test_surprisal_and_next_words(call: Call, kind: str, run: Path, text_file: Path) -> None:
    result = call("score", run, text_file, "--surprisal")
    completed = call("complete", run, "the dog", "--samples", 3)
    if kind in COMPOUND:
        assert (result.code, completed.code) == (2, 2)
        assert len(result.err.strip().splitlines()) == 1
        return
    assert (result.code, completed.code) == (0, 0), result.err + completed.err
    scores = [float(line) for line in call("score", run, text_file).lines]
    rows = [line.split("\t") for line in result.lines[1:]]
    bits = [sum(float(row[4]) for row in rows if row[0] == str(k + 1) and row[4] != "NA") for k in range(len(scores))]
    assert bits == pytest.approx([-score / math.log(2) for score in scores], rel=1e-4)
    found = load(run).complete("the dog", 10_000)
    assert sum(share for _, share in found.words) + found.end == pytest.approx(1)


def test_evaluate_by_viterbi(call: Call, run: Path, trees_file: Path) -> None:
    result = call("evaluate", run, trees_file, "--decode", "viterbi", "--json", "-")
    assert result.code == 0, result.err
    assert 0 <= json.loads(result.out)[0]["sentence_f1"] <= 100


def test_random_trees_and_entropy(run: Path) -> None:
    """Their spans come as often as the posterior says, their log-probabilities average to what the entropy says."""
    loaded = load(run)
    sentences = ["The dog , sees a cat .", "dog"]
    drawn, alone = loaded.sample_trees(sentences, 400, seed=3)
    assert [item.log_probability for item in alone] == [-math.inf] * 400
    share = sum((1, 6) in {(i, j) for i, j, _ in item.tree.spans} for item in drawn) / 400
    exact = float(loaded.span_marginals(sentences)[0][1, 6])
    assert abs(share - exact) < 5 * math.sqrt(exact * (1 - exact) / 400)
    kept = loaded.sample_trees(sentences[:1], 20, [{"require": [[1, 6]]}])[0]
    assert all((1, 6) in {(i, j) for i, j, _ in item.tree.spans} for item in kept)
    entropy = loaded.entropy(sentences)
    assert entropy[0] > 0
    assert entropy[1] == -math.inf
