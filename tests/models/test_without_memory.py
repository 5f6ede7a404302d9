"""Models built for their shapes alone: the same shapes, and no memory."""

import pytest
import torch

from simplepcfg.models import build_model
from simplepcfg.models.without_memory import without_memory
from simplepcfg.runs.config.files import load_config

SMALL = ["model.nonterminals=3", "model.preterminals=6", "model.embedding=4"]


@pytest.mark.parametrize("name", ["sn-pcfg-small", "rank-pcfg-128", "sc-pcfg", "n-pcfg", "c-pcfg"])
def test_the_same_shapes(name: str) -> None:
    config = load_config(name, SMALL).model
    with without_memory():
        empty = build_model(config, 11)
    real = build_model(config, 11)
    assert {key: value.shape for key, value in empty.state_dict().items()} == {
        key: value.shape for key, value in real.state_dict().items()
    }
    assert {value.device.type for value in empty.parameters()} == {"meta"}


def test_what_is_built_after_it_is_drawn() -> None:
    with without_memory():
        torch.nn.Linear(2, 2)
    torch.manual_seed(0)
    assert torch.nn.Linear(8, 8).weight.std() > 0
