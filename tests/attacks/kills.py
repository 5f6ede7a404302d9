"""kill -9 at random moments of `prepare` and `reproduce`: afterwards the same call gives what an undisturbed one gives.

    python tests/attacks/kills.py prepare FOLDER COUNT SEED

prints a JSON object for each kill. The kills of training are those of tests/training/kill_driver.py.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attacks.outcomes import Outcome

TESTS = Path(__file__).parents[1]
DRIVER = TESTS / "training" / "kill_driver.py"


def kill_training(folder: Path, count: int, seed: int = 0) -> Outcome:
    """Half of the kills at a write, a rename or a sync, half at any moment."""
    latest = {"half": 9, "fsync": 20, "replace": 12, "replaced": 12}
    moments = _moments(random.Random(seed), count, latest)
    return _driven("kill -9 while training", [str(DRIVER), str(folder), json.dumps([[0, moments]])])


def kill_taught_training(folder: Path, count: int, seed: int = 0) -> Outcome:
    """The same of a run with two teachers, most of it before and while their marginals are computed and saved."""
    latest = {"marginals": 16, "half": 16, "fsync": 30, "replace": 16, "replaced": 16}
    moments = _moments(random.Random(seed), count, latest)
    return _driven("kill -9 while training with teachers", [str(DRIVER), str(folder), json.dumps([[2, moments]])])


def _moments(rng: random.Random, count: int, latest: dict[str, int]) -> list[str]:
    moments = []
    for number in range(count):
        kind = rng.choice(list(latest))
        in_a_write = f"{kind}:{rng.randint(1, latest[kind])}"
        moments.append(in_a_write if number % 2 else f"share:{rng.uniform(0.0, 0.85):.4f}")
    return moments


def kill_others(what: str, folder: Path, count: int, seed: int = 0) -> Outcome:
    """Of `prepare` or `reproduce`."""
    return _driven(f"kill -9 during {what}", [__file__, what, str(folder), str(count), str(seed)])


def _driven(name: str, arguments: list[str]) -> Outcome:
    outcome = Outcome(name)
    path = os.pathsep.join(filter(None, [str(TESTS), str(TESTS / "helpers"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False)
    for line in done.stdout.splitlines():
        found = json.loads(line)
        if found["killed"]:  # a moment after the end of the run is none
            differences = found["differences"]
            outcome.count(f"{found['moment']}: {differences}" if differences else None)
    if done.returncode != 0:
        outcome.count(f"the driver ended with {done.returncode}: {done.stderr[-200:]}")
    return outcome


def main(what: str, folder: Path, count: int, seed: int) -> None:
    work, contents = (prepare_work, prepared) if what == "prepare" else (reproduce_work, reproduced)
    source = folder / "source"
    whole = folder / "whole"
    make_source(source)
    import simplepcfg.plans.runner  # noqa: F401 (for the processes that are forked from this one)

    wait(fork(lambda: work(source, folder / "first")))
    seconds = time.monotonic()
    assert wait(fork(lambda: work(source, whole))) == 0
    seconds = time.monotonic() - seconds
    rng = random.Random(seed)
    for number in range(count):
        broken = folder / f"broken-{number}"
        if what == "prepare" and number % 2:
            broken.mkdir()  # an empty folder is filled
        delay = rng.uniform(0, seconds)
        child = fork(lambda broken=broken: work(source, broken))
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        found = []
        if not (what == "prepare" and (broken / "prepared.toml").exists()):
            status = wait(fork(lambda broken=broken: work(source, broken)))
            found = [f"ended with status {status}"] if status else []
        if not found and contents(broken) != contents(whole):
            found = ["another result"]
        left = [str(path.relative_to(folder)) for path in folder.glob("*/.unfinished")]
        found += [f"left over: {name}" for name in left if os.path.exists(folder / name)]
        print(json.dumps({"moment": f"after {delay:.3f} s", "killed": killed, "differences": found}), flush=True)
        shutil.rmtree(broken, ignore_errors=True)


def make_source(folder: Path) -> None:
    """A treebank as published, and the three splits as `prepare` writes them."""
    from simplepcfg.data.synthetic_grammar import generate_treebank

    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate((("train", 400), ("valid", 12), ("test", 12))):
        trees = generate_treebank(count, seed)
        (folder / f"{name}.trees").write_text("".join(f"(TOP {tree.to_brackets()})\n" for tree in trees))
        (folder / f"{name}.txt").write_text("".join(" ".join(tree.words) + "\n" for tree in trees[:48]))


def prepare_work(source: Path, out: Path) -> None:
    from simplepcfg.data.conventions import Conventions
    from simplepcfg.data.preparation import Job, prepare
    from simplepcfg.data.treebank_files import find_trees

    files = sorted(source.glob("*.trees"))
    job = Job(kind="brackets", sources=[source], source=find_trees(files), conventions=Conventions())
    prepare(job, out)


def prepared(out: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}


def reproduce_work(source: Path, out: Path) -> None:
    import torch

    from simplepcfg.plans.runner import reproduce

    torch.set_num_threads(1)
    small = ["model.nonterminals=8", "model.preterminals=8", "model.embedding=8"]
    steps = ["training.epochs=1", "training.threads=1", "training.checkpoint_steps=1"]
    reproduce("lm", source, out, rows=["sn-pcfg-4096"], seeds=1, settings=[*small, *steps], device="cpu")


def reproduced(out: Path) -> list[Any]:
    records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    return [(record["row"], record["seed"], _without_names(record["report"])) for record in records]


def _without_names(report: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key not in ("name", "seconds")}


def fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return child


def wait(child: int) -> int:
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
