"""`simplepcfg doctor`, and what is said about a machine before training."""

import json
from pathlib import Path

import pytest
import torch

from command_calls import Call
from simplepcfg.runs import machine_check
from simplepcfg.runs.config.files import load_config
from simplepcfg.training.recommendation import fitting_configuration


def test_a_healthy_machine(call: Call, tmp_path: Path) -> None:
    result = call("doctor", tmp_path, "--json", tmp_path / "machine.json")
    assert result.code == 0, result.err
    assert not [line for line in result.lines if line.startswith("!")]
    found = json.loads((tmp_path / "machine.json").read_text())
    names = [fact["name"] for fact in found["facts"]]
    for name in ("python", "torch", "threads", "disk", "device", "inside, torch", "inside, log_einsum_exp"):
        assert name in names
    assert found["recommended"] in result.out


def test_a_wrong_kernel_is_found(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    true_inside = machine_check.inside

    def off_by_one(*arguments: torch.Tensor, backend: str, **options: object) -> torch.Tensor:
        return true_inside(*arguments, backend=backend, **options) + (backend == "torch")

    monkeypatch.setattr(machine_check, "inside", off_by_one)
    result = call("doctor")
    assert result.code == 4
    assert [line[:16] for line in result.lines if line.startswith("!")] == ["! inside, torch:"]


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine_check, "LEAST_FREE", 2**60)
    problems = {fact.name for fact in machine_check.machine(tmp_path) if fact.problem}
    assert {"disk", "memory"} <= problems


def test_a_limited_share_of_a_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine_check.MPS_SHARE, "30")
    assert "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" in str(machine_check.mps_problem(torch.device("cuda")))
    assert machine_check.mps_problem(torch.device("cpu")) is None
    monkeypatch.setenv(machine_check.MPS_SHARE, "100")
    assert machine_check.mps_problem(torch.device("cuda")) is None


def test_no_such_folder(call: Call, tmp_path: Path) -> None:
    assert call("doctor", tmp_path / "none").code == 2


@pytest.mark.parametrize(
    ("sentences", "language_model", "config"),
    [
        (500, False, "demo"),
        (6_000, False, "sn-pcfg-128"),
        (40_000, False, "rank-pcfg-128"),
        (40_000, True, "sn-pcfg-small-lm"),
    ],
)
def test_recommended_without_a_gpu(sentences: int, language_model: bool, config: str) -> None:
    assert fitting_configuration(sentences, language_model, "cpu").config == config
    load_config(config)
