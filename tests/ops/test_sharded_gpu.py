"""Two processes share a grammar on one GPU, by gloo with CUDA tensors: the kernels run on the rows of each."""

import json
import socket
from pathlib import Path

import pytest
import torch

from sharded_models import gpu_process

pytestmark = pytest.mark.gpu
# In bf16 the sum over parents is rounded in two parts instead of one.
TOLERANCES = {"torch.float64 None": 1e-10, "torch.float32 None": 1e-4, "torch.float32 bf16": 5e-2}


def test_kernels_under_sharding(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(gpu_process, (port, str(tmp_path)), nprocs=2)
    for rank in range(2):
        for case, worst in json.loads((tmp_path / f"worst-{rank}").read_text()).items():
            kind = next(kind for kind in TOLERANCES if case.endswith(kind))
            assert max(worst) < TOLERANCES[kind], (case, worst)
