"""A run whose model is trained further answers with the weights that it has now."""

from pathlib import Path

import pytest
import torch

import simplepcfg
from tiny_runs import make_tiny_run, tiny_sentences

pytestmark = pytest.mark.usefixtures("one_thread")


def test_weights_that_change_in_place(tmp_path: Path) -> None:
    run = simplepcfg.load(make_tiny_run(tmp_path / "run"), "cpu")
    sentences = tiny_sentences(4, seed=4)
    before = run.score(sentences)
    assert run.grammar is run.grammar  # computed once
    optimiser = torch.optim.SGD(run.model.parameters(), lr=0.3)
    run.model.loss(torch.tensor([[1, 2, 3, 4]])).sum().backward()
    optimiser.step()
    run.save(tmp_path / "changed")
    found = run.score(sentences)
    assert found != before
    assert found == simplepcfg.load(tmp_path / "changed", "cpu").score(sentences)


def test_weights_of_another_dtype(tmp_path: Path) -> None:
    run = simplepcfg.load(make_tiny_run(tmp_path / "run"), "cpu")
    assert run.grammar.root.dtype == torch.float32
    run.model.double()
    assert run.grammar.root.dtype == torch.float64


def test_weights_that_change_uncounted(tmp_path: Path) -> None:
    run = simplepcfg.load("english", "cpu")
    sentences = ["the old dog slept"]
    (before,) = run.score(sentences)
    weights = list(run.model.parameters())
    torch.nn.utils.vector_to_parameters(torch.nn.utils.parameters_to_vector(weights) * 0.9, weights)
    (once,) = run.score(sentences)
    assert once != before
    for weight in weights:
        weight.data.mul_(0.9)
    (twice,) = run.score(sentences)
    assert twice != once
    run.save(tmp_path / "changed")
    again = simplepcfg.load(tmp_path / "changed", "cpu")
    assert again.labels is None  # those of `english` are of other weights
    assert again.score(sentences) == [twice]
    ids = torch.tensor([run.vocabulary.encode(sentences[0].split())])
    with torch.enable_grad():  # nothing that was kept is read
        assert run.model.grammar().log_partition(ids).item() == pytest.approx(twice, abs=1e-4)


def test_a_packed_grammar_loads_in_inference_mode() -> None:
    with torch.inference_mode():
        run = simplepcfg.load("english", "cpu")
        inside = run.score(["the old dog slept"])
    assert inside == simplepcfg.load("english", "cpu").score(["the old dog slept"])
