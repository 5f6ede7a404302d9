"""Several processes train one model: as one process would, and they end together."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed

from simplepcfg.inference.run import load
from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import Interrupted, train
from toy_runs import TOY_SETTINGS, SignalAt, leftovers

TESTS = Path(__file__).parents[1]
DRIVER = Path(__file__).with_name("process_driver.py")
pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]


def environment(**more: str) -> dict[str, str]:
    paths = [str(TESTS), str(TESTS / "helpers"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **more}


class Processes:
    """Starts several processes together, as often as asked, by forking one that has imported torch."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._rounds = folder, 0
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        # Ended with the group, so that no forked process stays behind.
        self._driver = subprocess.Popen(
            [sys.executable, str(DRIVER)], env=environment(), start_new_session=True, **pipes
        )

    def run(self, *arguments: str, processes: int = 2) -> list[tuple[int, str, str]]:
        """Exit code, standard output and standard error of each."""
        self._rounds += 1
        folder = self._folder / str(self._rounds)
        folder.mkdir()
        self._driver.stdin.write(json.dumps([str(folder), processes, *arguments]) + "\n")
        self._driver.stdin.flush()
        codes = json.loads(self._driver.stdout.readline())
        return [
            (code, *((folder / f"{name}-{rank}").read_text("utf-8") for name in ("out", "err")))
            for rank, code in enumerate(codes)
        ]

    def train(
        self, text: Path, out: Path, *settings: str, sabotage: str = "none", processes: int = 2
    ) -> list[tuple[int, str, str]]:
        changes = [part for setting in (*TOY_SETTINGS, *settings) for part in ("--set", setting)]
        command = ["sn-pcfg-small", "--train", str(text), "--out", str(out), *changes]
        return self.run("train", sabotage, *command, processes=processes)

    def close(self) -> None:
        os.killpg(self._driver.pid, signal.SIGKILL)
        self._driver.communicate()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    processes = Processes(tmp_path_factory.mktemp("processes"))
    yield processes
    processes.close()


def metrics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]


def assert_same_metrics(one: Path, other: Path) -> None:
    first, second = metrics(one), metrics(other)
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        assert {key: value for key, value in a.items() if not isinstance(value, float)} == {
            key: value for key, value in b.items() if not isinstance(value, float)
        }
        for key in (key for key, value in a.items() if isinstance(value, float)):
            assert a[key] == pytest.approx(b[key], rel=1e-4), key


@pytest.fixture(scope="module")
def alone(text_file: Path, make_config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distributed") / "alone"
    train(make_small(make_config), folder)
    return folder


def make_small(make_config, *settings: str):
    base = make_config()
    changes = [*TOY_SETTINGS, f'data.train="{base.data.train}"', *settings]
    return load_config("sn-pcfg-small", changes, environment={})


@pytest.mark.parametrize("processes", [2, 4])
def test_gradients_equal_those_of_one_process(two: Processes, tmp_path: Path, processes: int) -> None:
    ended = two.run("gradients", str(tmp_path / "worst"), processes=processes)
    assert all(code == 0 for code, _, _ in ended), ended
    for case, (worst, dtype) in json.loads((tmp_path / "worst").read_text()).items():
        assert worst < (1e-10 if dtype == "torch.float64" else 1e-5), (case, worst)


@pytest.mark.parametrize("processes", [2, 4])
def test_sharded_models_equal_whole_ones(two: Processes, tmp_path: Path, processes: int) -> None:
    ended = two.run("sharded", str(tmp_path / "differences"), processes=processes)
    assert all(code == 0 for code, _, _ in ended), ended
    for case, (*worst, dtype) in json.loads((tmp_path / "differences").read_text()).items():
        assert max(worst) < (1e-10 if dtype == "torch.float64" else 1e-5), (case, worst)


def test_two_processes_train_as_one(two: Processes, text_file: Path, alone: Path, tmp_path: Path) -> None:
    first, second = two.train(text_file, tmp_path / "run")
    assert (first[0], second[0]) == (0, 0), (first, second)
    assert "on cpu in 2 processes" in first[2]
    assert second[1:] == ("", "")
    assert_same_metrics(alone, tmp_path / "run")
    assert leftovers(tmp_path / "run") == []
    config = (alone / "config.toml").read_bytes()
    assert (tmp_path / "run" / "config.toml").read_bytes() == config


@pytest.mark.parametrize("mesh", [(1, 2), (2, 2)])
def test_a_mesh_trains_as_one(two: Processes, text_file: Path, alone: Path, tmp_path: Path, mesh: tuple) -> None:
    folder = tmp_path / "run"
    ended = two.train(text_file, folder, f"training.mesh={list(mesh)}", processes=mesh[0] * mesh[1])
    assert all(code == 0 for code, _, _ in ended), ended
    assert "each with 1 / 2 of the grammar" in ended[0][2]
    assert all(other[1:] == ("", "") for other in ended[1:]), ended
    assert_same_metrics(alone, folder)
    parts = sorted(file.name for file in folder.glob("checkpoint-*"))
    assert [name.partition("-of-")[0][-2:] for name in parts] == ["-1", "-2"]
    one, whole = Checkpoint.load(RunFolder(alone).checkpoint), Checkpoint.load(RunFolder(folder).checkpoint)
    for tensors, others in ((one.weights, whole.weights), (one.optimizer, whole.optimizer)):
        assert tensors.keys() == others.keys()
        for name, tensor in tensors.items():
            torch.testing.assert_close(others[name], tensor, rtol=1e-3, atol=1e-5)
    assert load(folder).parse(["the dog sleeps here"])


def assert_same_epochs(one: Path, other: Path) -> None:
    first, second = ([line for line in metrics(folder) if line["kind"] == "epoch"] for folder in (one, other))
    assert [(line["step"], line["valid_tokens"]) for line in first] == [
        (line["step"], line["valid_tokens"]) for line in second
    ]
    for a, b in zip(first, second, strict=True):
        assert a["valid_perplexity"] == pytest.approx(b["valid_perplexity"], rel=1e-4)


def test_a_signal_to_one_of_two_saves_and_one_goes_on(
    two: Processes, make_config, text_file: Path, alone: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    first, second = two.train(text_file, folder, sabotage="terminate")
    assert (first[0], second[0]) == (143, 143), (first, second)
    (line,) = [line for line in first[2].splitlines() if line.startswith("simplepcfg:")]
    assert "stopped by SIGTERM after step 7, all saved; go on with" in line
    assert second[1:] == ("", "")
    assert Checkpoint.load(RunFolder(folder).checkpoint).state.step == 7  # asked in the sixth, agreed in the next
    train(None, folder, resume=True)
    assert_same_epochs(alone, folder)


def test_two_go_on_with_what_one_began(two: Processes, make_config, alone: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(make_small(make_config), folder, reporter=SignalAt(4, signal.SIGTERM))
    first, second = two.run("train", "none", "--resume", str(folder))
    assert (first[0], second[0]) == (0, 0), (first, second)
    assert "resumed in epoch 1, after step 4" in first[2]
    assert_same_epochs(alone, folder)


@pytest.mark.parametrize("setting", ["training.epochz=1", "data.max_length=1"])
def test_bad_input_is_one_line_once(two: Processes, text_file: Path, tmp_path: Path, setting: str) -> None:
    first, second = two.train(text_file, tmp_path / "run", setting)
    assert (first[0], second[0]) == (2, 2), (first, second)
    assert len(first[2].splitlines()) == 1, first
    assert second[1:] == ("", "")


@pytest.mark.parametrize(
    ("what", "codes", "message"),
    [
        ("loss", (1, 1), "simplepcfg: process 1 failed: RuntimeError: boom"),
        ("disk", (4, 4), "simplepcfg: no space left on the disk while training"),
    ],
)
def test_a_failure_ends_both(
    two: Processes, text_file: Path, tmp_path: Path, what: str, codes: tuple, message: str
) -> None:
    first, second = two.train(text_file, tmp_path / "run", sabotage=what)
    assert (first[0], second[0]) == codes, (first, second)
    assert next(line for line in first[2].splitlines() if line.startswith("simplepcfg:")).startswith(message)
    assert "simplepcfg:" not in second[2]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="lists threads as Linux does")
def test_an_error_leaves_no_thread_behind(two: Processes, tmp_path: Path) -> None:
    """One that runs on while the interpreter ends may abort the process: then the exit code is lost."""
    ended = two.run("threads", str(tmp_path / "seen"))
    assert [code for code, _, _ in ended] == [0, 0], ended
    together, afterwards, message = json.loads((tmp_path / "seen").read_text())
    assert together
    assert afterwards == []
    assert "no space left on the disk" in message


@pytest.mark.slow
def test_by_torchrun(text_file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    changes = [part for setting in (*TOY_SETTINGS, "training.epochs=1") for part in ("--set", setting)]
    arguments = [
        "-m",
        "simplepcfg",
        "train",
        "sn-pcfg-small",
        "--train",
        str(text_file),
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(
        [*command, *arguments, *changes], env=environment(), capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("best epoch 1 of 1") == 1
    assert RunFolder(tmp_path / "run").model.exists()
