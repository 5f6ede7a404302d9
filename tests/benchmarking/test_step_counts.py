"""The floor of a training step: the matrix products that torch counts in the model's own parts."""

from typing import Literal

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarking.sizes import Size
from floors import StepSize, Work, adam
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig

STATES, TAGS, WIDTH, WORDS = 6, 12, 8, 50


@pytest.mark.parametrize("networks", ["released", "paper"])
def test_networks_rules_and_words_are_the_products_of_the_model(networks: Literal["released", "paper"]) -> None:
    """Counted in the networks, called one by one; the root's, which reads one row, is left out."""
    config = SimpleNPCFGConfig(nonterminals=STATES, preterminals=TAGS, embedding=WIDTH, networks=networks)
    model = SimpleNPCFG(config, vocabulary_size=WORDS + 1)
    size = StepSize(Size(2, 5, STATES, TAGS), WIDTH, WORDS, config.emission_blocks)
    states, tags = model.symbols[:STATES], model.symbols[STATES:]
    inputs = (
        (model.parent, states),
        (model.left_child, model.symbols),
        (model.right_child, model.symbols),
        (model.emission, tags),
    )
    with FlopCounterMode(display=False) as counter:
        parents, left, right, features = (network(rows) for network, rows in inputs)
    assert counter.get_total_flops() == size.forward()["networks"].flops
    with FlopCounterMode(display=False) as counter:
        (parents @ left.T).sum().backward(retain_graph=True, inputs=[parents, left])
        (parents @ right.T).sum().backward(retain_graph=True, inputs=[parents, right])
    assert counter.get_total_flops() == size.both()["rules"].flops
    words = torch.randn(WORDS + 10, WIDTH)  # all of them, and the sentences' ten once more
    with FlopCounterMode(display=False) as counter:
        features @ words.T
    assert counter.get_total_flops() == size.forward()["emissions"].flops


def test_the_step_is_its_parts_and_the_inside_algorithm() -> None:
    """In flops; the floor is the longer of products and bytes."""
    size = StepSize(Size(16, 21, 4096, 8192), 512, 10_000, emission_blocks=3)
    parts = sum(work.flops for work in size.both().values())
    assert size.step().flops == parts + size.inside.flops
    assert Work(790e12, 0.0).floor_ms() == 1000
    assert Work(790e12, 8.5e12).floor_ms() == 2000
    assert adam(10).bytes == 280
