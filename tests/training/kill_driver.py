"""Kills training with SIGKILL at given moments, resumes it, and compares with a run that was left alone.

    python kill_driver.py FOLDER '[[0, ["half:2", "replace:5", "share:0.3", ...]], [TEACHERS, [MOMENT, ...]], ...]'

Prints one JSON object a moment: {"teachers", "moment", "killed", "differences"}. A moment is the k-th write, cut in
half (half), the k-th fsync, the instant before (replace) or after (replaced) the k-th rename, the k-th time that a
teacher is asked for marginals (marginals), or an instant from outside, some milliseconds after metrics.jsonl has grown
to a share of its final length. Each run is a fork of this process. With TEACHERS above 0, so many runs are trained
first, from whose span marginals the others learn; these are then computed and saved a few sentences at a time.
"""

import builtins
import gc
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from simplepcfg import files as files_module
from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.training import teachers as teachers_module
from simplepcfg.training import train
from toy_runs import BRIEF, TOY_SETTINGS, differences, toy_sentences

TEACHER_SENTENCES = 8  # of the sixty that are computed together, and then saved


def main(folder: Path, series: list[tuple[int, list[str]]]) -> None:
    # What torch imports only when it is first used would otherwise be imported again in every fork.
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.sum().backward()
    torch.optim.Adam([parameter]).step()
    gc.freeze()  # or every fork copies and searches all of it
    for number, (teachers, moments) in enumerate(series):
        place = folder / str(number)
        place.mkdir()
        for outcome in outcomes(place, moments, teachers):
            print(json.dumps({"teachers": teachers, **outcome}), flush=True)


def outcomes(folder: Path, moments: list[str], teachers: int) -> Iterator[dict[str, Any]]:
    """Kill and resume a run at every moment."""
    text = folder / "train.txt"
    text.write_text("\n".join(toy_sentences(random.Random(1), 60)) + "\n", "utf-8")
    names = [str(folder / f"teacher-{number}") for number in range(teachers)]
    for seed, name in enumerate(names, start=1):
        assert forked(lambda seed=seed, name=name: run(text, RunFolder(Path(name)), settings=[f"seed={seed}"])) == 0
    teachers_module.BLOCK, teachers_module.SECONDS_BETWEEN_SAVES = TEACHER_SENTENCES, 0.0
    teachers_module.SECONDS_BEFORE_THE_FIRST = 0.0
    settings = [f"training.teacher={json.dumps(names)}"] if names else []
    whole = RunFolder(folder / "whole")
    assert forked(lambda: run(text, whole, settings=settings)) == 0
    size = whole.metrics.stat().st_size
    for number, moment in enumerate(moments):
        broken = RunFolder(folder / f"broken-{number}")
        status = killed_run(text, broken, moment, size, settings)
        check_readable(broken)
        resumed = forked(lambda broken=broken: run(text, broken, broken.config.exists(), settings))
        found = differences(whole, broken) if resumed == 0 else [f"resuming ended with status {resumed}"]
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        yield {"moment": moment, "killed": killed, "differences": found}


def run(text: Path, folder: RunFolder, resume: bool = False, settings: Sequence[str] = ()) -> None:
    torch.set_num_threads(1)
    config = load_config(overrides=[*TOY_SETTINGS, *BRIEF, f'data.train="{text}"', *settings], environment={})
    train(config, folder.path, resume=resume)


def forked(work: Callable[[], None]) -> int:
    """Run `work` in a child process and return its wait status."""
    return os.waitpid(fork(work), 0)[1]


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


def killed_run(text: Path, folder: RunFolder, moment: str, size: int, settings: Sequence[str]) -> int:
    kind, _, when = moment.partition(":")
    if kind == "share":
        child = fork(lambda: run(text, folder, settings=settings))
        while not folder.metrics.exists() or folder.metrics.stat().st_size < float(when) * size:
            time.sleep(0.001)
        time.sleep(random.Random(moment).uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1]

    def work() -> None:
        arm(kind, int(when))
        run(text, folder, settings=settings)

    return forked(work)


def arm(kind: str, call: int) -> None:
    """Make the `call`-th write, fsync, rename or batch of marginals of this process its last act."""
    count = 0

    def is_the_moment() -> bool:
        nonlocal count
        count += 1
        return count == call

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if kind == "half":

        def open_and_die(path: Any, mode: str) -> Any:
            stream = builtins.open(path, mode)  # noqa: SIM115 - dies with the process
            if "w" in mode and is_the_moment():
                original_write = stream.write

                class Half:
                    def __enter__(self) -> "Half":
                        return self

                    def __exit__(self, *_: object) -> None:
                        stream.close()

                    def write(self, content: bytes) -> None:
                        original_write(content[: len(content) // 2])
                        stream.flush()
                        die()

                return Half()
            return stream

        files_module.open = open_and_die  # type: ignore[attr-defined]
        return

    name = {"fsync": "fsync", "marginals": "span_marginals"}.get(kind, "replace")
    module: Any = teachers_module.Teacher if kind == "marginals" else os
    original = getattr(module, name)

    def last_act(*arguments: Any) -> Any:
        now = is_the_moment()
        if now and kind != "replaced":
            die()
        result = original(*arguments)
        if now:
            die()
        return result

    setattr(module, name, last_act)


def check_readable(folder: RunFolder) -> None:
    """Without any resuming: what is there can be read, and a model that is there can be used."""
    if folder.checkpoint.exists():
        Checkpoint.load(folder.checkpoint)
    if folder.model.exists():
        load_run(folder.path, "cpu")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
