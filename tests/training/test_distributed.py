"""Several processes train one model: as one process would, and they end together."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed

from simplepcfg.errors import InputError
from simplepcfg.inference.run import load
from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import Interrupted, train
from simplepcfg.training.step.distributed import balanced_shares, mesh_shape
from toy_runs import TOY_SETTINGS, SignalAt, leftovers

TESTS = Path(__file__).parents[1]
SETTINGS = [*TOY_SETTINGS, "training.epochs=2"]
DRIVER = Path(__file__).with_name("process_driver.py")
pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]


def environment(**more: str) -> dict[str, str]:
    folders = (TESTS, TESTS / "helpers", TESTS.parent / "benchmarks")
    paths = [*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])]
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
        changes = [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
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
    changes = [*SETTINGS, f'data.train="{base.data.train}"', *settings]
    return load_config("sn-pcfg-small", changes, environment={})


@pytest.mark.parametrize("processes", [2, 4])
def test_gradients_equal_those_of_one_process(two: Processes, tmp_path: Path, processes: int) -> None:
    ended = two.run("gradients", str(tmp_path / "worst"), processes=processes)
    assert all(code == 0 for code, _, _ in ended), ended
    for case, (worst, dtype) in json.loads((tmp_path / "worst").read_text()).items():
        assert worst < (1e-10 if dtype == "torch.float64" else 1e-5), (case, worst)


def test_sharded_models_equal_whole_ones(two: Processes, tmp_path: Path) -> None:
    ended = two.run("sharded", str(tmp_path / "differences"))
    assert all(code == 0 for code, _, _ in ended), ended
    for case, (*worst, dtype) in json.loads((tmp_path / "differences").read_text()).items():
        assert max(worst) < (1e-10 if dtype == "torch.float64" else 1e-5), (case, worst)


@pytest.mark.parametrize("processes", [2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_bytes_are_as_planned_and_memory_is_divided(two: Processes, tmp_path: Path, processes: int) -> None:
    """The memory of the tensors of one of K processes is one K-th of that of one process alone, within 15 %."""
    ended = two.run("bytes", str(tmp_path / "bytes"), processes=processes)
    assert all(code == 0 for code, _, _ in ended), ended
    by_mesh, share = json.loads((tmp_path / "bytes").read_text())
    for mesh, (counted, planned) in by_mesh.items():
        assert counted == planned, mesh
    sharing = 4 if processes > 2 else 2  # processes that share a grammar on the last mesh
    assert 0.9 < share * sharing < 1.15


def test_two_processes_train_as_one(two: Processes, text_file: Path, alone: Path, tmp_path: Path) -> None:
    first, second = two.train(text_file, tmp_path / "run")
    assert (first[0], second[0]) == (0, 0), (first, second)
    assert "on cpu in 2 processes" in first[2]
    assert second[1:] == ("", "")
    assert_same_metrics(alone, tmp_path / "run")
    assert leftovers(tmp_path / "run") == []
    config = (alone / "config.toml").read_bytes()
    assert (tmp_path / "run" / "config.toml").read_bytes() == config


@pytest.fixture(scope="module")
def sharded(two: Processes, text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of one grammar in two parts."""
    folder = tmp_path_factory.mktemp("sharded") / "run"
    first, second = two.train(text_file, folder, "training.mesh=[1, 2]")
    assert (first[0], second[0]) == (0, 0), (first, second)
    assert "each with 1 / 2 of the grammar" in first[2]
    assert second[1:] == ("", "")
    return folder


def test_a_sharded_grammar_trains_as_one(sharded: Path, alone: Path) -> None:
    folder = sharded
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


def test_a_killed_worker_is_started_again_and_ends_with_the_same_bits(
    two: Processes, text_file: Path, sharded: Path, tmp_path: Path
) -> None:
    """Of one grammar in two parts: kill -9 of the second, and then what torchrun --max-restarts does."""
    mesh, folder = "training.mesh=[1, 2]", tmp_path / "killed"
    first, second = two.train(text_file, folder, mesh, sabotage="kill")
    assert (first[0], second[0]) == (1, -signal.SIGKILL), (first, second)
    assert first[2].splitlines()[-1] == (
        "simplepcfg: another of the 2 processes is gone; the last checkpoint stands"
    ), first
    first, second = two.train(text_file, folder, mesh, sabotage="restart")
    assert (first[0], second[0]) == (0, 0), (first, second)
    assert "resumed in epoch 1, after step 3" in first[2]
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (folder / name).read_bytes() == (sharded / name).read_bytes(), name


def test_a_sharded_run_goes_on_with_any_number_of_processes(
    two: Processes, text_file: Path, alone: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    first, _ = two.train(text_file, folder, "training.mesh=[1, 2]", sabotage="terminate")
    assert first[0] == 143, first
    shutil.copytree(folder, tmp_path / "four")
    train(RunFolder(folder).read_config(["training.mesh=[]"]), folder, resume=True)
    assert_same_epochs(alone, folder)
    assert not list(folder.glob("checkpoint-*"))  # one process writes one file
    ended = two.run("train", "none", "--resume", str(tmp_path / "four"), "--set", "training.mesh=[2, 2]", processes=4)
    assert [code for code, _, _ in ended] == [0] * 4, ended
    assert_same_epochs(alone, tmp_path / "four")
    part = next((tmp_path / "four").glob("checkpoint-*-2-of-2.safetensors"))
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)
    with pytest.raises(InputError, match=r"2-of-2.safetensors: .*checksum does not match"):
        Checkpoint.load(RunFolder(tmp_path / "four").checkpoint)
    part.unlink()
    with pytest.raises(InputError, match=r"2-of-2.safetensors, a part of it, is missing"):
        Checkpoint.load(RunFolder(tmp_path / "four").checkpoint)


def test_a_process_that_hangs_ends_the_run(two: Processes, text_file: Path, tmp_path: Path) -> None:
    first, second = two.train(text_file, tmp_path / "run", "training.timeout_minutes=0.02", sabotage="hang")
    assert (first[0], second[0]) == (1, 1), (first, second)
    (line,) = [line for line in first[2].splitlines() if line.startswith("simplepcfg:")]
    assert "another of the 2 processes did not answer for 0.02 minutes (training.timeout_minutes)" in line
    assert second[1:] == ("", "")


def test_max_minutes_ends_both_after_the_same_epoch(two: Processes, text_file: Path, tmp_path: Path) -> None:
    settings = ("training.max_minutes=0.016", "training.epochs=500", "training.patience=0")
    first, second = two.train(text_file, tmp_path / "run", *settings)
    assert (first[0], second[0]) == (0, 0), (first, second)
    assert metrics(tmp_path / "run")[-1]["epoch"] < 500


def test_processes_that_differ_are_refused(two: Processes, text_file: Path, tmp_path: Path) -> None:
    first, second = two.train(text_file, tmp_path / "run", sabotage="version")
    assert (first[0], second[0]) == (2, 2), (first, second)
    assert first[2] == (
        "simplepcfg: the version of simplepcfg or torch is not the same in all 2 processes; install the same on all "
        "machines\n"
    )
    assert not (tmp_path / "run").exists()


def test_a_mesh_is_for_so_many_processes() -> None:
    assert mesh_shape((), 3) == (3, 1)
    assert mesh_shape((2, 4), 8) == (2, 4)
    with pytest.raises(InputError, match=r"mesh = \[2, 4\] is for 8 processes, but 2 are running; start so many"):
        mesh_shape((2, 4), 2)


def test_expensive_sentences_are_shared_out_first() -> None:
    shares = balanced_shares([length**3 for length in (40, 5, 39, 6, 7, 38)], 3)
    assert shares == [[0], [2], [1, 3, 4, 5]]
    assert balanced_shares([1.0] * 5, 2) == [[0, 2, 4], [1, 3]]


@pytest.mark.parametrize("setting", ["training.epochz=1", "data.max_length=1"])
def test_bad_input_is_one_line_once(two: Processes, text_file: Path, tmp_path: Path, setting: str) -> None:
    first, second = two.train(text_file, tmp_path / "run", setting)
    assert (first[0], second[0]) == (2, 2), (first, second)
    assert len(first[2].splitlines()) == 1, first
    assert second[1:] == ("", "")


@pytest.mark.parametrize(
    ("what", "mesh", "codes", "message"),
    [
        ("loss", "[2, 1]", (1, 1), "simplepcfg: process 1 failed: RuntimeError: boom"),
        ("loss", "[1, 2]", (1, 1), "simplepcfg: process 1 failed: RuntimeError: boom"),
        ("disk", "[2, 1]", (4, 4), "simplepcfg: no space left on the disk while training"),
    ],
)
def test_a_failure_ends_both(
    two: Processes, text_file: Path, tmp_path: Path, what: str, mesh: str, codes: tuple, message: str
) -> None:
    first, second = two.train(text_file, tmp_path / "run", f"training.mesh={mesh}", sabotage=what)
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


def by_torchrun(text: Path, out: Path, *settings: str, restarts: int = 0) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    changes = [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
    training = ["-m", "simplepcfg", "train", "sn-pcfg-small", "--train", str(text), "--out", str(out)]
    return [*command, f"--max-restarts={restarts}", *training, *changes]


@pytest.mark.slow
def test_by_torchrun(text_file: Path, tmp_path: Path) -> None:
    command = by_torchrun(text_file, tmp_path / "run", "training.epochs=1")
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("best epoch 1 of 1") == 1
    assert RunFolder(tmp_path / "run").model.exists()


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes as Linux does")
def test_ten_kills_lose_nothing(text_file: Path, tmp_path: Path) -> None:
    """Under torchrun --max-restarts, at random moments of a sharded run: weights are those of an undisturbed one."""
    settings = ("training.mesh=[1, 2]", "training.epochs=100", "training.patience=0", "training.checkpoint_steps=5")
    quiet = {"env": environment(), "stdout": (tmp_path / "out").open("w"), "stderr": subprocess.STDOUT}
    subprocess.run(by_torchrun(text_file, tmp_path / "undisturbed", *settings), **quiet, check=True)
    folder, chance, kills, seen = tmp_path / "killed", random.Random(1), 0, 0
    running = subprocess.Popen(by_torchrun(text_file, folder, *settings, restarts=10), **quiet)
    while running.poll() is None and kills < 10:
        time.sleep(chance.uniform(0, 0.5))
        workers = [int(pid) for pid in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()]
        steps = (folder / "timings.jsonl").stat().st_size if (folder / "timings.jsonl").exists() else 0
        if steps > seen and len(workers) == 2 and chance.random() < 0.3:  # it trains again after the last kill
            os.kill(chance.choice(workers), signal.SIGKILL)
            kills, seen = kills + 1, steps
    assert running.wait() == 0, (tmp_path / "out").read_text()[-3000:]
    assert kills >= 3, "the run ended before it could be killed"
    print(f"{kills} kills")
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (folder / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes(), name
