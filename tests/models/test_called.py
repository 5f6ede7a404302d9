"""A model that is called gives its loss, also within PyTorch's own wrapper for several processes."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from model_checks import check_gradients, tiny_model_of
from simplepcfg.models import SimpleCPCFGConfig, SimpleNPCFGConfig

WORDS, LENGTHS = torch.tensor([[1, 2, 3, 4], [5, 6, 2, 0]]), torch.tensor([4, 3])


@pytest.mark.parametrize("config", [SimpleNPCFGConfig(), SimpleCPCFGConfig()])
def test_a_call_is_the_loss(config: object, tmp_path: Path) -> None:
    model = tiny_model_of(config, 9)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        losses = []
        wrapped = DistributedDataParallel(model)
        for call in (model.loss, model, wrapped):
            torch.manual_seed(0)  # a compound model draws z
            losses.append(call(WORDS, LENGTHS))  # type: ignore[operator]
        losses[-1].mean().backward()
        # If the wrapper held the process group last, its end could wait forever: it has Python's lock, which gloo's
        # threads need to end.
        del call, wrapped
    finally:
        dist.destroy_process_group()
    assert torch.equal(losses[0], losses[1])
    assert torch.equal(losses[0], losses[2])
    check_gradients(model)
