"""kill -9 at any moment loses nothing but the steps since the last checkpoint."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("kill_driver.py")
# A run begins with config.toml, vocabulary.txt and run.json; from the fourth rename on it writes tensors only.
IN_A_CHECKPOINT = [
    "half:3",
    "half:5",
    "half:7",
    "fsync:9",
    "fsync:17",
    "replace:4",
    "replace:6",
    "replace:8",
    "replaced:4",
    "replaced:7",
]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


def drive(folder: Path, *series: tuple[int, list[str]]) -> list[dict]:
    """Outcomes of kills at some moments, each with its number of teachers."""
    command = [sys.executable, str(DRIVER), str(folder), json.dumps(series)]
    path = os.pathsep.join(filter(None, [str(DRIVER.parents[1] / "helpers"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(outcome["teachers"], outcome["moment"]) for outcome in outcomes] == [
        (teachers, moment) for teachers, moments in series for moment in moments
    ]
    return outcomes


def assert_all_equal(outcomes: list[dict]) -> None:
    assert [outcome for outcome in outcomes if outcome["differences"] or not outcome["killed"]] == []


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """One process for both tests: what it imports takes longer than a run."""
    taught = ["marginals:5", "half:6", "replaced:14"]
    return drive(tmp_path_factory.mktemp("killed"), (0, ["half:4", "replace:1"]), (1, taught))


def test_kill_at_a_few_moments(driven: list[dict]) -> None:
    assert_all_equal([outcome for outcome in driven if not outcome["teachers"]])


def test_kill_while_learning_from_teachers(driven: list[dict]) -> None:
    """In the computation of their marginals, in the file of these, and in a checkpoint after it."""
    assert_all_equal([outcome for outcome in driven if outcome["teachers"]])


@pytest.mark.slow
def test_kill_at_twenty_moments(tmp_path: Path) -> None:
    rng = random.Random(0)
    anywhere = [f"share:{rng.uniform(0.0, 0.85):.4f}" for _ in range(10)]
    assert_all_equal(drive(tmp_path, (0, IN_A_CHECKPOINT + anywhere)))
