"""Weight decay that follows from the amount of text."""

from pathlib import Path

import pytest
import torch

from simplepcfg.errors import InputError
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.runs.tensor_files import read_tensor_file
from simplepcfg.training import train
from simplepcfg.training.schedule import with_weight_decay


def test_decay_per_epoch_over_rate_and_steps() -> None:
    settings = load_config("sn-pcfg", ["training.weight_decay_per_epoch=1.2", "training.batch_size=16"], {}).training
    found = with_weight_decay(settings, sentences=32_001)  # 2,001 steps
    assert found.weight_decay == pytest.approx(1.2 / (settings.learning_rate * 2_001))


@pytest.mark.parametrize("sentences", [0, 1, 1_601, 23_000])
def test_short_epochs_decay_no_faster(sentences: int) -> None:
    settings = load_config("sn-pcfg", ["training.weight_decay_per_epoch=1.2", "training.batch_size=16"], {}).training
    assert with_weight_decay(settings, sentences).weight_decay == pytest.approx(0.4)
    assert with_weight_decay(settings, 24_016).weight_decay < 0.4  # 1,501 steps


def test_without_it_nothing_changes() -> None:
    settings = load_config("sn-pcfg-4096", [], {}).training
    assert with_weight_decay(settings, 100) is settings


def test_both_kinds_are_refused() -> None:
    with pytest.raises(InputError, match=r"training\.weight_decay = 0\.1 and .*per_epoch = 1\.2; set one of them to 0"):
        load_config("sn-pcfg", ["training.weight_decay=0.1"], {})


def test_runs_are_trained_with_it(tmp_path: Path) -> None:
    text = ["the dog sees a cat", "a cat sleeps"] * 16  # two steps an epoch
    small = ["model.nonterminals=4", "model.preterminals=4", "model.embedding=8", "training.epochs=1"]
    for name, setting in (("total", "training.weight_decay=0.4"), ("share", "training.weight_decay_per_epoch=0.2")):
        config = load_config("sn-pcfg-small", [*small, setting], {})
        train(config, tmp_path / name, train_text=text, valid_text=text)
    total, share = (read_tensor_file(RunFolder(tmp_path / name).model)[0] for name in ("total", "share"))
    assert total.keys() == share.keys()
    assert all(torch.equal(total[name], share[name]) for name in total)
