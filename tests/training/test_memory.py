"""Training that cannot fit is refused before anything is allocated or written."""

from pathlib import Path

import pytest
import torch

from simplepcfg.errors import ResourceError
from simplepcfg.models import SimpleNPCFGConfig, build_model
from simplepcfg.training import memory, train


def test_estimate_counts_what_it_says() -> None:
    config = SimpleNPCFGConfig(nonterminals=3, preterminals=5, embedding=4, residual_blocks=1)
    weights = sum(parameter.numel() for parameter in build_model(config, 11).parameters())
    sizes = {part.what: part.size for part in memory.estimate(config, 11, batch=2, longest=6)}
    assert sizes == {
        "weights": 4 * 4 * weights,
        "rules": 4 * 4 * 2 * 3 * 8,
        "emissions": 4 * 3 * 5 * 11,
        "chart": 4 * 4 * 3 * 2 * 7**2,
    }


def test_estimate_draws_nothing() -> None:
    before = torch.get_rng_state()
    memory.estimate(SimpleNPCFGConfig(initial_scores=1.0), 11, batch=2, longest=6)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ("model.nonterminals=10000000", "for the rules, .*; lower model.nonterminals"),
        ("model.embedding=10000000", "for the weights, .*; lower model.embedding"),
    ],
)
def test_too_large_a_model_is_refused(make_config, tmp_path: Path, setting: str, advice: str, monkeypatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: 64 * 2**30)
    with pytest.raises(ResourceError, match=rf"training would take about [\d,.]+ GiB, .*{advice}") as caught:
        train(make_config(setting), tmp_path / "run")
    assert caught.value.exit_code == 4
    assert not (tmp_path / "run").exists()


def test_long_batches_are_refused(make_config, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**20)
    lines = [" ".join("ab"[k % 2] for k in range(300))] * 4
    with pytest.raises(ResourceError, match=r"for the chart, .*; lower training\.batch_size or data\.max_length"):
        train(make_config("data.max_length=0"), tmp_path / "run", train_text=lines)


def test_unknown_memory_refuses_nothing(make_config, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: None)
    assert train(make_config("training.epochs=1"), tmp_path / "run").epochs == 1
