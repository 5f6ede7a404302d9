"""Commands on compound and rank runs: what they answer and what they refuse in one line."""

import json
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg import load
from tiny_runs import make_tiny_run

COMPOUND = ["model.kind=sc-pcfg", "model.latent=3", "model.encoder=6"]
RANK = ["model.kind=rank-pcfg", "model.rank=5"]


@pytest.fixture(scope="session")
def compound_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_run(tmp_path_factory.mktemp("compound") / "run", *COMPOUND)


@pytest.fixture(scope="session")
def rank_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_run(tmp_path_factory.mktemp("rank") / "run", *RANK)


def test_exact_runs_beside_compound_ones(call: Call, compound_run: Path, tiny_run: Path, text_file: Path) -> None:
    exact, compound = json.loads(call("evaluate", tiny_run, compound_run, text_file, "--json", "-").out)
    assert exact["likelihood"] == "exact"
    assert compound["likelihood"] == "ELBO at the posterior mean"
    assert "posterior mean" in call("evaluate", compound_run, text_file).out
    assert "no exact log-probability" in call("score", compound_run, text_file, "--json", "-").err


def test_random_trees_come_from_each_sentence_s_own_rules(compound_run: Path) -> None:
    run = load(compound_run)
    sentences = ["the dog sees a cat", "the man sleeps"]
    drawn = run.sample_trees(sentences, 300, seed=1)
    assert [len(trees) for trees in drawn] == [300, 300]
    posteriors = run.span_marginals(sentences)
    for trees, posterior, words in zip(drawn, posteriors, sentences, strict=True):
        n = len(words.split())
        share = sum((0, 2) in {span[:2] for span in item.tree.spans} for item in trees) / 300
        assert share == pytest.approx(float(posterior[0, 2]), abs=0.12)
        best = run.k_best([words], 1)[0][0].log_probability
        assert max(item.log_probability for item in trees) <= best + 1e-4
        assert all(item.tree.spans[0][:2] == (0, n) for item in trees)


@pytest.mark.parametrize("run", ["compound_run", "rank_run"])
def test_what_both_answer(call: Call, run: str, text_file: Path, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(run)
    for command in (("parse", folder, text_file), ("score", folder, text_file), ("evaluate", folder, text_file)):
        result = call(*command)
        assert (result.code, result.out != "") == (0, True), result.err


def test_symbols_of_a_compound_model_are_refused(call: Call, compound_run: Path, text_file: Path) -> None:
    result = call("show", compound_run, text_file)
    assert (result.code, len(result.err.splitlines())) == (2, 1)


def test_symbols_of_a_rank_model_are_shown(call: Call, rank_run: Path, text_file: Path) -> None:
    result = call("show", rank_run, text_file)
    assert result.code == 0
    assert "NT-0" in result.out


def test_score_does_not_call_it_a_log_probability(call: Call, compound_run: Path, tiny_run: Path) -> None:
    assert "log p(x | posterior mean) - KL), one number a line" in call("score", compound_run, stdin="the dog").err
    assert "nats (natural log-probability), one" in call("score", tiny_run, stdin="the dog").err
