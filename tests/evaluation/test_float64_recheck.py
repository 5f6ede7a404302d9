"""Sentences that are too improbable for float32 are no impossible ones: the surfaces give them their log p."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from simplepcfg.evaluation.float64_recheck import Float64Recheck
from simplepcfg.evaluation.likelihood import log_likelihoods
from simplepcfg.grammars import (
    DenseEmissions,
    DenseGrammar,
    HiddenMarkovModel,
    RankGrammar,
    SimpleGrammar,
)
from simplepcfg.grammars.kept import Kept
from simplepcfg.inference.run import load
from simplepcfg.models.simple_cpcfg import SimpleCPCFG, SimpleCPCFGConfig
from simplepcfg.ops.tensor_fields import bytes_in_float64, in_float64
from tiny_runs import make_tiny_run

# Preterminal 0 says word 1 surely, but no rule leads to it; preterminal 1 says it with e^-120, and word 2 otherwise.
EMIT = torch.tensor([[-math.inf, 0.0, -math.inf, -math.inf], [-math.inf, -120.0, math.log(0.5), -math.inf]])
LOG_P = -120 + math.log(0.5)
RARE, COMMON, IMPOSSIBLE = [1, 2], [2, 2, 2], [2, 3]  # nobody says word 3


def simple() -> SimpleGrammar:
    rules = torch.tensor([[0.5, 0.0, 0.5]])
    return SimpleGrammar(torch.ones(1), rules, rules, DenseEmissions(EMIT), precision="bf16")


class Fixed(nn.Module):
    """A model of one grammar that is given."""

    shares_rules = True

    def __init__(self, grammar: Any) -> None:
        super().__init__()
        self._grammar = grammar

    def grammar(self) -> Any:
        return self._grammar


GRAMMARS = {
    "simple": simple(),
    "rank": RankGrammar(
        torch.ones(1), torch.ones(1, 1), simple().left, simple().right, DenseEmissions(EMIT), precision="bf16"
    ),
    "dense": DenseGrammar(torch.ones(1), simple().to_dense().rules, DenseEmissions(EMIT)),
    "hmm": HiddenMarkovModel(torch.tensor([0.5, 0.5]), torch.eye(2), DenseEmissions(EMIT)),
    "low-rank hmm": HiddenMarkovModel(torch.tensor([0.5, 0.5]), (torch.eye(2), torch.eye(2)), DenseEmissions(EMIT)),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_validation_gives_every_family_its_log_p(name: str) -> None:
    grammar = GRAMMARS[name]
    sentences = [COMMON, RARE, IMPOSSIBLE, [1], RARE[::-1]]
    found = log_likelihoods(Fixed(grammar), sentences, torch.device("cpu"))
    wide = in_float64(grammar)
    expected = [
        float(wide.log_partition(torch.tensor([sentence]))) if len(sentence) > 1 else -math.inf
        for sentence in sentences
    ]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    assert expected[1] == pytest.approx(LOG_P + math.log(0.5 if "hmm" in name else 0.25))
    assert expected[2] == -math.inf
    if name != "dense":  # which mends this by itself
        assert float(grammar.log_partition(torch.tensor([RARE]))) == -math.inf


@pytest.mark.parametrize("question", ["score", "evaluate"])
def test_runs_score_them(tmp_path: Path, question: str) -> None:
    run = load(make_tiny_run(tmp_path / "run"), closed_vocabulary=True)
    grammar = run.grammar
    tags = grammar.left.shape[-1] - grammar.root.shape[-1]
    table = grammar.emissions.of_preterminals(torch.arange(tags))
    (the,) = run.vocabulary.encode(["the"])
    table[:, the], table[0, the] = -120.0, 0.0
    left, right = grammar.left.clone(), grammar.right.clone()
    left[:, grammar.root.shape[-1]] = right[:, grammar.root.shape[-1]] = 0.0
    changed = replace(grammar, left=left, right=right, emissions=DenseEmissions(table))
    run._grammar, run._make_grammar = Kept(), lambda: changed
    sentences = ["the dog sees a cat", "dog sees a cat"]
    if question == "score":
        found = run.score(sentences)
        ids = torch.tensor([run.vocabulary.encode(sentences[0].split())])
        expected = float(in_float64(run.grammar).log_partition(ids))
        assert -140 > found[0] == pytest.approx(expected)
        bonus = run.score(sentences, [{"bonus": [[0, 5, 2.0]]}, None])
        assert bonus == pytest.approx([found[0] + 2, found[1]], abs=1e-4)
    else:
        report = run.evaluate(sentences).perplexity
        assert report is not None
        assert report.impossible == 0
        assert math.isfinite(report.perplexity)


def test_compound_models_too(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    sizes = {"nonterminals": 2, "preterminals": 2, "embedding": 4, "latent": 3, "encoder": 5}
    model = SimpleCPCFG(SimpleCPCFGConfig(**sizes), 4)  # type: ignore[arg-type]

    def grammar_of(z: torch.Tensor) -> SimpleGrammar:
        one = simple()
        parts = [t.expand(len(z), *t.shape) for t in (one.root, one.left, one.right)]
        return SimpleGrammar(*parts, DenseEmissions(EMIT.expand(len(z), -1, -1)))

    monkeypatch.setattr(model, "grammar_of", grammar_of)
    found = log_likelihoods(model, [RARE, COMMON, RARE[::-1]], torch.device("cpu"))
    with torch.no_grad():
        divergence = model.posterior(torch.tensor([RARE, RARE[::-1]])).divergence().double()
    torch.testing.assert_close(found[[0, 2]], LOG_P + math.log(0.25) - divergence)


def test_without_room_they_stay_impossible_and_the_range_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simplepcfg.evaluation.float64_recheck._room", lambda device: bytes_in_float64(simple()) - 1)
    with pytest.warns(RuntimeWarning, match=r"below e\^-103 of its word's best; the rules in float64 take") as warned:
        found = log_likelihoods(Fixed(simple()), [COMMON, RARE, [1, 1, 2]], torch.device("cpu"))
    assert len(warned) == 1
    assert math.isfinite(found[0])
    assert found[1:].tolist() == [-math.inf] * 2


def test_rules_are_converted_only_when_needed_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(
        "simplepcfg.evaluation.float64_recheck.in_float64", lambda grammar: calls.append(1) or in_float64(grammar)
    )
    recheck = Float64Recheck(None, simple())
    words, lengths = torch.tensor([[2, 2]]), torch.tensor([2])
    assert recheck.log_likelihoods(torch.tensor([-1.5]), words, lengths).tolist() == [-1.5]
    assert not calls
    for _ in range(2):
        assert recheck.log_likelihoods(torch.tensor([-math.inf]), torch.tensor([RARE]), lengths)[0] == pytest.approx(
            LOG_P + math.log(0.25)
        )
    assert calls == [1]
