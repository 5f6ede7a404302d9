"""Symbols that a step leaves out: which, how many, and that a run with them repeats itself."""

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from simplepcfg.errors import InputError
from simplepcfg.evaluation import likelihood
from simplepcfg.models import LowRankHMMConfig, NeuralHMMConfig, SimpleNPCFGConfig, build_model
from simplepcfg.models.npcfg import NPCFGConfig
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import Interrupted, train
from simplepcfg.training.step.state_dropout import StateDropout, draw_rows, draw_with_dedicated_preterminals, kept_count
from step_checks import make_step, mixed_batches, tiny_model, weights
from toy_runs import LEVERS, TOY_SETTINGS, SignalAt, differences, toy_sentences


def test_rows_of_each_group_in_order() -> None:
    rows = draw_rows((10, 30), (4, 20), seed=1)
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert (int((rows < 10).sum()), int((rows >= 10).sum()), int(rows.max()) < 40) == (4, 20, True)
    assert torch.equal(rows, draw_rows((10, 30), (4, 20), seed=1))
    assert not torch.equal(rows, draw_rows((10, 30), (4, 20), seed=2))


def test_every_symbol_is_kept_equally_often() -> None:
    counts = torch.zeros(12)
    for seed in range(2000):
        counts[draw_rows((4, 8), (2, 4), seed)] += 1
    expected = torch.full((12,), 1000.0)
    assert float(((counts - expected) ** 2 / (expected / 2)).sum()) < 35  # chi-squared, ten degrees of freedom


@pytest.mark.parametrize(
    ("size", "share", "expected"), [(1, 0.9, 1), (10, 0.3, 7), (4096, 0.5, 2048), (4096, 0.3, 2880), (300, 0.01, 300)]
)
def test_kept_count(size: int, share: float, expected: int) -> None:
    assert kept_count(size, share) == expected


def test_dedicated_preterminals_go_with_their_nonterminals() -> None:
    config = SimpleNPCFGConfig(
        nonterminals=6, preterminals=12, embedding=16, rms_norm=True, init_logit_std=2.0, dedicated_preterminals=0.5
    )
    model = build_model(config, 9)
    StateDropout(model, TrainingConfig(state_dropout=0.5), seed=3).draw(0)
    kept = model.step_dropout.kept.tolist()  # type: ignore[union-attr]
    assert kept == draw_with_dedicated_preterminals((6, 12), (3, 6), seed=3 * 1_000_003).tolist()
    assert kept[3:] == [6 + 2 * owner + k for owner in kept[:3] for k in (0, 1)]
    assert model.step_dropout.counts == (3, 6)  # type: ignore[union-attr]


def test_each_step_draws_its_own() -> None:
    model = tiny_model()
    dropout = StateDropout(model, TrainingConfig(state_dropout=0.5), seed=3)
    drawn = []
    for step in (0, 1, 0):
        dropout.draw(step)
        drawn.append(model.step_dropout.kept.clone())  # type: ignore[union-attr]
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])


def test_only_what_takes_part_learns() -> None:
    model = tiny_model()
    before = weights(model)
    dropout = StateDropout(model, TrainingConfig(state_dropout=0.5), seed=3)
    dropout.draw(0)
    step, (batch,) = make_step(model), mixed_batches(1)
    step(batch, len(batch), 0.01)
    moved = (weights(model)["symbols"] != before["symbols"]).any(-1)
    assert set(moved.nonzero().flatten().tolist()) <= set(model.step_dropout.kept.tolist())  # type: ignore[union-attr]
    assert moved.any()


def test_features_of_a_kernel_are_drawn_besides() -> None:
    model = build_model(LowRankHMMConfig(states=12, rank=10, embedding=4), 5)
    for states, expected in ((0.5, 6), (0.0, None)):
        dropout = StateDropout(model, TrainingConfig(state_dropout=states, feature_dropout=0.3), seed=3)
        drawn = []
        for step in (0, 1, 0):
            dropout.draw(step)
            kept: Any = model.step_dropout
            assert (None if kept.kept is None else len(kept.kept)) == expected
            rows = kept.kernel_rows.clone()
            assert rows.tolist() == sorted(set(rows.tolist()))
            assert (len(rows), int(rows.min()) >= 0, int(rows.max()) < 10) == (7, True, True)
            drawn.append(rows)
        assert torch.equal(drawn[0], drawn[2])
        assert not torch.equal(drawn[0], drawn[1])


def test_what_few_models_have_to_leave_out() -> None:
    model = build_model(NeuralHMMConfig(states=12, embedding=4), 5)
    for name, what in (("feature_dropout", "kernel features"), ("logit_dropout", "factors of transitions")):
        with pytest.raises(InputError, match=rf"training\.{name} = 0\.1: a model of kind hmm has no {what}"):
            StateDropout(model, TrainingConfig(**{name: 0.1}), seed=0)


@pytest.mark.parametrize(
    "settings",
    [
        ["model.kind=lhmm", "model.rank=6", "training.state_dropout=0.2", "training.feature_dropout=0.3"],
        ["model.kind=rank-hmm", "model.rank=6", "training.logit_dropout=0.2"],
    ],
    ids=["lhmm", "rank-hmm"],
)
def test_resumed_chains_equal_undisturbed_ones(settings: list[str], tmp_path: Path) -> None:
    """With the dropouts of the authors' programs, and a rate that falls where validation gets no better."""
    text = toy_sentences(random.Random(1), 60)
    sizes = [*TOY_SETTINGS[3:], "data.eos=true", "model.states=8", "model.embedding=8"]
    plateau = ["training.schedule=plateau", "training.plateau_epochs=1", "training.learning_rate=1"]
    config = load_config(None, [*sizes, *settings, *plateau], environment={})
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    train(config, whole.path, train_text=text[:40], valid_text=text[40:])
    with pytest.raises(Interrupted):
        train(config, broken.path, train_text=text[:40], valid_text=text[40:], reporter=SignalAt(12, signal.SIGTERM))
    train(None, broken.path, resume=True, train_text=text[:40], valid_text=text[40:])
    assert differences(whole, broken) == []


def test_a_model_that_leaves_nothing_out_says_so() -> None:
    model = build_model(NPCFGConfig(nonterminals=2, preterminals=3, embedding=4), 5)
    for name in ("state_dropout", "embedding_dropout"):
        with pytest.raises(InputError, match=rf"training\.{name} = 0\.5: a model of kind n-pcfg leaves nothing out"):
            StateDropout(model, TrainingConfig(**{name: 0.5}), seed=0)
    StateDropout(model, TrainingConfig(), seed=0).draw(0)


@pytest.fixture(scope="module")
def with_levers(make_config, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = RunFolder(tmp_path_factory.mktemp("levers") / "whole")
    train(make_config(*LEVERS), folder.path)
    return folder


@pytest.mark.parametrize("step", [2, 7])
def test_resumed_equals_undisturbed(make_config, with_levers: RunFolder, tmp_path: Path, step: int) -> None:
    broken = RunFolder(tmp_path / "broken")
    with pytest.raises(Interrupted):
        train(make_config(*LEVERS), broken.path, reporter=SignalAt(step, signal.SIGTERM))
    train(None, broken.path, resume=True)
    assert differences(with_levers, broken) == []


def test_a_signal_in_validation_saves_the_weights_and_not_their_average(
    make_config, with_levers: RunFolder, tmp_path: Path, monkeypatch
) -> None:
    """Validation has the average in place of the weights."""
    broken = RunFolder(tmp_path / "broken")
    original = likelihood.collate

    def collate_and_stop(*arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(likelihood, "collate", collate_and_stop)
    with pytest.raises(Interrupted):
        train(make_config(*LEVERS), broken.path)
    monkeypatch.undo()
    train(None, broken.path, resume=True)
    assert differences(with_levers, broken) == []
