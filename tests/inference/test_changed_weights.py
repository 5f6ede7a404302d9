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
