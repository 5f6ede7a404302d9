"""The running average of the weights: its numbers, and that it is what is validated and kept."""

from pathlib import Path

import pytest
import torch
from torch import nn

from simplepcfg.errors import InputError
from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.runs.tensor_files import read_tensor_file
from simplepcfg.training import train
from simplepcfg.training.step.ema import WeightEMA


def test_by_hand() -> None:
    model = nn.Linear(1, 1, bias=False)
    ema = WeightEMA(model, 0.5)
    seen, expected = [3.0, 5.0, -1.0, 2.0, 7.0, 1.0, 0.5, 4.0, 9.0, 2.0, 6.0, 8.0], 0.0
    for step, value in enumerate(seen):
        with torch.no_grad():
            model.weight.fill_(value)
        ema.update(ema.weight_at(step))
        kept = min(0.5, step / (step + 9))
        expected = kept * expected + (1 - kept) * value
    assert ema.weights()["weight"].item() == pytest.approx(expected)
    assert model.weight.item() == 8.0


def test_in_place_and_back() -> None:
    model = nn.Linear(2, 2)
    ema = WeightEMA(model, 0.9)
    ema.update(ema.weight_at(0))
    address, before = model.weight.data_ptr(), model.weight.detach().clone()
    with torch.no_grad():
        model.weight += 1
    with ema.swapped_in():
        assert torch.equal(model.weight, before)
        assert model.weight.data_ptr() == address
    assert torch.equal(model.weight, before + 1)
    with pytest.raises(ValueError, match="seen"), ema.swapped_in():
        raise ValueError("seen")
    assert torch.equal(model.weight, before + 1)


def test_without_one_the_weights_are_the_models() -> None:
    model = nn.Linear(2, 2)
    ema = WeightEMA(model, 0.0)
    with torch.no_grad():
        model.weight += 1
    ema.update(ema.weight_at(5))
    with ema.swapped_in():
        assert torch.equal(ema.weights()["weight"], model.weight)
    assert ema.state() == {}


def test_a_checkpoint_without_it_is_refused() -> None:
    with pytest.raises(InputError, match="its average of the weights is not of this model; start a new run"):
        WeightEMA(nn.Linear(2, 2), 0.9).load({}, Path("checkpoint"))


def test_the_average_is_validated_and_kept(make_config, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    result = train(make_config("training.ema_decay=0.8", "training.epochs=1"), folder.path)
    checkpoint, model = Checkpoint.load(folder.checkpoint), read_tensor_file(folder.model).tensors
    assert model.keys() == checkpoint.average.keys()
    for name, tensor in model.items():
        assert torch.equal(tensor, checkpoint.average[name])
    assert any(not torch.equal(tensor, checkpoint.weights[name]) for name, tensor in model.items())
    text = load_run(folder.path)
    assert result.best.perplexity is not None
    assert text.config.training.ema_decay == 0.8
