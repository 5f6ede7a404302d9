"""The identity of expected rule counts, as a check at run time."""

import json
from pathlib import Path

import pytest
import torch

from simplepcfg.errors import InputError
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import train
from simplepcfg.training.step.rule_count_check import rule_count_ratio
from step_checks import mixed_batches, tiny_model


@pytest.mark.parametrize("batch", mixed_batches(5), ids=str)
def test_counts_add_up(batch) -> None:
    model = tiny_model()
    assert rule_count_ratio(model, batch.words, batch.lengths) == pytest.approx(1.0, abs=1e-5)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_impossible_and_one_word_sentences_are_left_out() -> None:
    model = tiny_model()
    assert rule_count_ratio(model, torch.ones(2, 1, dtype=torch.int64), torch.tensor([1, 1])) is None
    words, lengths = torch.ones(2, 3, dtype=torch.int64), torch.tensor([3, 1])
    assert rule_count_ratio(model, words, lengths) == pytest.approx(1.0, abs=1e-5)


def test_grammars_without_such_rules_are_refused(monkeypatch) -> None:
    model = tiny_model()
    monkeypatch.setattr(model, "grammar", lambda words, lengths: object())
    with pytest.raises(InputError, match=r"training\.check_identity: .*set it to false"):
        rule_count_ratio(model, torch.ones(1, 2, dtype=torch.int64), torch.tensor([2]))


def test_a_model_without_rules_is_refused_and_the_folder_stays_free(make_config, tmp_path: Path) -> None:
    settings = ["model.states=6", "model.embedding=8", "data.eos=true", "training.check_identity=true"]
    config = load_config("hmm-4096", overrides=[f'data.train="{make_config().data.train}"', *settings], environment={})
    with pytest.raises(InputError, match=r"check_identity: a model of kind hmm has no rules to count; set it to false"):
        train(config, tmp_path / "run")
    assert not RunFolder(tmp_path / "run").config.exists()


def test_it_is_recorded_where_asked_for(make_config, tmp_path: Path) -> None:
    train(make_config("training.epochs=1", "training.check_identity=true"), tmp_path / "run")
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines())
    ratios = [line["rule_count_ratio"] for line in lines if line["kind"] == "steps"]
    assert ratios
    assert ratios == pytest.approx([1.0] * len(ratios), abs=1e-4)
