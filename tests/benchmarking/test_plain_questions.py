"""The calls that benchmarks/plain_questions_gpu.py measures run on a CPU too, where none is replayed."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from simplepcfg.benchmarking.sizes import Size

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "plain_questions_gpu.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plain_questions_gpu", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_all_questions_can_be_asked(script: ModuleType) -> None:
    inputs = script.Inputs.of(Size(2, 4, 6, 9), torch.device("cpu"))
    for name, (make, _) in script.ROWS.items():
        with torch.no_grad():
            found = make(inputs)()
        if name == "hmm-gradients":
            assert all(bool(torch.isfinite(tensor).all()) for tensor in found)
        elif isinstance(found, Tensor):
            assert not bool(found.isnan().any())


def test_lines(script: ModuleType) -> None:
    row: dict[str, object] = dict.fromkeys(script.COLUMNS[7:], "")
    row |= {"question": "viterbi", "B": 1, "n": 2, "N": 3, "P": 4}
    assert script.line(row | {"failure": "OOM"}).split() == ["viterbi", "1,", "2,", "3,", "4", "OOM"]
    times = {name: 2.0 for name in script.FIGURES if not name.startswith("graph")}
    assert script.line(row | times | {"over_graph": ""}).split()[5:] == [
        "2.000",
        "2.000",
        "–",
        "2.000",
        "–",
        "2",
        "2",
        "–",
    ]
