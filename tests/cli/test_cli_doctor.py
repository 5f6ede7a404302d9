"""`simplepcfg doctor`, and what is said about a machine before training."""

import json
import os
from pathlib import Path

import pytest
import torch

from command_calls import Call
from simplepcfg.runs import machine_check
from simplepcfg.runs.config.files import load_config
from simplepcfg.training import recommendation
from simplepcfg.training.recommendation import estimated_seconds, fitting_configuration, spoken, time_note

CPU = torch.device("cpu")


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


def test_time_grows_with_the_work() -> None:
    small = load_config("sn-pcfg-small")
    once = estimated_seconds(small, [10] * 1000, 1000, CPU)
    assert once is not None
    assert once > 0
    large = load_config("sn-pcfg")
    note = time_note(large, [20] * 40_000, 10_000, CPU)
    assert note is not None
    assert "hours" in note
    assert "quicker here: simplepcfg train rank-pcfg-128" in note
    several = time_note(load_config("sn-pcfg-128", ["training.epochs=100000"]), [20] * 15_000, 10_000, CPU)
    assert several is not None
    assert several.endswith("; lower training.epochs")  # it is the quicker one already
    assert estimated_seconds(load_config("c-pcfg"), [10], 100, CPU) is None
    assert estimated_seconds(small, [10], 100, torch.device("cuda")) is None


def test_time_of_a_small_model_is_not_that_of_its_products(monkeypatch) -> None:
    monkeypatch.setattr(recommendation, "_flops_a_second", lambda threads: 2e10)  # whatever this machine can do
    sizes = ["model.nonterminals=16", "model.preterminals=32", "model.embedding=32", "training.epochs=1"]
    seconds = estimated_seconds(load_config("sn-pcfg-small", sizes), [12] * 1600, 420, CPU)
    assert seconds is not None
    assert 100 * 0.01 < seconds < 100 * 0.1  # a hundred steps, which launch hundreds of operations each


def test_time_note_of_one_epoch(monkeypatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    note = time_note(load_config("sn-pcfg-small", ["training.epochs=1"]), [10] * 100, 100, CPU)
    assert note is not None
    assert "for 1 epoch, if" in note


def test_time_note_of_a_busy_machine(monkeypatch) -> None:
    """Announced times that other programs make too short are no help."""
    monkeypatch.setattr("os.getloadavg", lambda: (3.0 * (os.cpu_count() or 1), 0.0, 0.0))
    assert recommendation.slowdown_by_others() > 3
    note = time_note(load_config("sn-pcfg-small", ["training.epochs=1"]), [10] * 10_000, 100, CPU)
    assert note is not None
    assert "beside the programs that use the CPU now" in note


def test_no_random_number_is_drawn() -> None:
    before = torch.get_rng_state()
    recommendation._flops_a_second.cache_clear()
    recommendation.estimated_seconds(load_config("sn-pcfg-small"), [5], 50, CPU)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "about a second"), (40.2, "about 40 seconds"), (300, "about 5 minutes"), (9000, "about 2.5 hours")],
)
def test_spoken(seconds: float, text: str) -> None:
    assert spoken(seconds) == text
