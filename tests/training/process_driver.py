"""Training processes with the environment that torchrun sets: forked for test_distributed.py, so that torch loads once.

A line of standard input names a folder, a number of processes and arguments. So many processes get them, and write
their standard output and standard error to files of that folder; then a line with their exit codes is printed.
Arguments are one of:

sharded FILE               # compare whole and sharded models
gradients FILE             # compare steps on meshes with one process alone
bytes FILE                 # count the bytes of collectives and of tensors
threads FILE               # fail, keep the error, and write the threads that still run
train SABOTAGE ARGUMENT…   # the command line, with something going wrong in one process
"""

import gc
import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # by the first step of an optimiser, which takes longer than the rest of a small run
from torch import Tensor

import cluster
from sharded_models import LENGTHS, MODELS, WORDS, whole_and_sharded
from sharded_models import differences as model_differences
from simplepcfg.cli.main import run
from simplepcfg.data.batching import Batch, collate
from simplepcfg.errors import ResourceError
from simplepcfg.models import SimpleNPCFG
from simplepcfg.ops.shards import Shards
from simplepcfg.runs import run_folder
from simplepcfg.runs.metrics import JsonLines
from simplepcfg.training.cluster_plan import StepShape, step_traffic
from simplepcfg.training.step import distributed
from simplepcfg.training.step.distributed import Group, join_group
from step_checks import make_step, mixed_batches

SECONDS_BETWEEN_ENDS = 60.0
MESHES = {2: [(2, 1), (1, 2)], 4: [(2, 2), (1, 4)], 8: [(4, 2), (2, 4)]}  # by processes
distributed.LEADER_WAIT_SECONDS = 0.1  # no torchrun ends these processes, so the leader has all the time it needs


def compare_gradients(out: Path) -> None:
    """Gradients and sums of the same global batches on every mesh; some leave a process without a sentence."""
    torch.set_num_threads(1)
    single = [Batch(batch.words[:1], batch.lengths[:1], [0]) for batch in mixed_batches(1, seed=5)]
    batches = mixed_batches(10)[3:5] + single  # equal lengths, mixed lengths, and less than a sentence for each
    worst, alone = {}, {}
    with join_group() as group:
        for mesh in MESHES[group.size]:
            group.shards = None
            group.arrange(torch.device("cpu"), mesh, 1.0)
            for name in ("sn-pcfg", "sc-pcfg"):
                for dtype in (torch.float32, torch.float64)[group.size > 2 :]:  # of four processes in float64 alone
                    if (name, dtype) not in alone:
                        alone[name, dtype] = _gradients_alone(name, dtype, batches)
                    difference = _worst_gradient(group, name, dtype, batches, alone[name, dtype])
                    worst[f"{name} {mesh} {dtype}"] = (difference, str(dtype))
        if group.is_leader:
            out.write_text(json.dumps(worst))


def _gradients_alone(name: str, dtype: torch.dtype, batches: list[Batch]) -> list[tuple[dict[str, Tensor], Tensor]]:
    """Return the gradients of each batch by one process, and its counters."""
    model, _, _ = whole_and_sharded(name, Shards(None, 0, 1), dtype)
    step, results = make_step(model, Group()), []
    for number, batch in enumerate(batches):
        torch.manual_seed(number)
        step(batch, len(batch), 0.0)
        gradients = {parameter: one.grad.clone() for parameter, one in model.named_parameters()}
        results.append((gradients, step.counters.values.clone()))
    return results


def _worst_gradient(group: Group, name: str, dtype: torch.dtype, batches: list[Batch], alone: list) -> float:
    """Return the largest difference of a gradient from that of a process that computes all alone."""
    shards = group.shards or Shards(None, 0, 1)
    _, shared, tables = whole_and_sharded(name, shards, dtype)
    if group.shards is None:
        shared.shards = None
    together = make_step(shared, group)
    worst = 0.0
    for number, (batch, (gradients, counters)) in enumerate(zip(batches, alone, strict=True)):
        sentences = [words[:n] for words, n in zip(batch.words.tolist(), batch.lengths.tolist(), strict=True)]
        places = group.share(batch.lengths, 8)
        torch.manual_seed(number)
        if name == "sc-pcfg":
            shared.take_part(len(batch), places)
        together(collate(sentences, places), len(batch), 0.0)
        for parameter, gradient in gradients.items():
            wanted = shards.own(gradient, tables[parameter]) if parameter in tables else gradient
            worst = max(worst, float((shared.get_parameter(parameter).grad - wanted).abs().max()))
        torch.testing.assert_close(together.counters.values[:-3], counters[:-3], rtol=1e-5, atol=1e-9)
    return worst


def count_bytes(out: Path) -> None:
    """Bytes of the collectives of a step with those of the plan, by mesh, and peaks of tensors alone and sharded."""
    torch.set_num_threads(1)
    with join_group() as group:
        results: dict[str, tuple[object, object]] = {}
        for mesh in MESHES[group.size]:
            group.shards = None
            group.arrange(torch.device("cpu"), mesh, 1.0)
            shards = group.shards or Shards(None, 0, 1)
            whole, shared, _ = whole_and_sharded("sn-pcfg", shards, torch.float32)
            shared.shards = group.shards
            step = make_step(shared, group)
            words = [[1 + (a * b) % 12 for a in range(9)] for b in range(6)]
            with cluster.CountedBytes() as counted:
                step(collate(words, group.share(torch.full((6,), 9), 8)), 6, 0.0)
            traffic = step_traffic(StepShape(whole.config, WORDS, 6, 9, mesh, item=4))
            results[str(mesh)] = (counted.sums, cluster.expected_bytes(traffic))
        batch = cluster.make_batch(4, 8)
        peak = group.maximum(cluster.peak_of_steps(640, group, batch))
        if group.is_leader:
            alone = cluster.peak_of_steps(640, Group(), batch)
            out.write_text(json.dumps([results, peak / alone]))


def compare_shards(out: Path) -> None:
    """Differences of losses, gradients and span marginals between models that are whole and sharded."""
    torch.set_num_threads(1)
    differences = {}
    with join_group() as group:
        shards = Shards.of(torch.distributed.group.WORLD)
        for name in MODELS:
            for lengths in LENGTHS:
                for dtype in (torch.float32, torch.float64)[name in ("dropout", "paper") :]:
                    case = f"{name} {lengths} {dtype}"
                    differences[case] = (*model_differences(name, shards, dtype, lengths), str(dtype))
        if group.is_leader:
            out.write_text(json.dumps(differences))


def list_threads(out: Path) -> None:
    """Names of the threads that talk to other processes, while together and once an error has ended that."""
    seen = []
    try:
        with join_group() as group:
            group.raise_held_errors()
            seen.append(_talking())
            with group.holding_errors():
                raise OSError(28, "No space left on device")
            group.raise_held_errors()
    except ResourceError as error:  # which refers to the group
        seen.append(_talking())
        if _rank() == 0:
            out.write_text(json.dumps([*seen, str(error)]))


def _talking() -> list[str]:
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return [name for name in names if "gloo" in name]


def sabotage(what: str) -> None:
    """Make one process fail in the middle of training."""
    calls = iter(range(10**6))
    if what == "loss" and _rank() == 1:
        loss = SimpleNPCFG.loss

        def failing(self, words, lengths=None, **options):
            if next(calls) == 3:
                raise RuntimeError("boom")
            return loss(self, words, lengths, **options)

        SimpleNPCFG.loss = failing  # type: ignore[method-assign]
    if what == "disk" and _rank() == 0:
        write = JsonLines.write

        def full(self, record):
            if next(calls) == 3:
                raise OSError(28, "No space left on device")
            write(self, record)

        JsonLines.write = full  # type: ignore[method-assign]
    if what == "terminate" and _rank() == 1:
        _act_at_step(5, lambda: os.kill(os.getpid(), signal.SIGTERM))
    if what == "kill" and _rank() == 1:
        _act_at_step(5, lambda: os.kill(os.getpid(), signal.SIGKILL))
    if what == "hang" and _rank() == 1:
        _act_at_step(5, _wait_for_the_other)
    if what == "restart":
        os.environ["TORCHELASTIC_RESTART_COUNT"] = "1"
    if what == "version" and _rank() == 1:
        run_folder.__version__ = "0.0.1"


def _act_at_step(step: int, action: Callable[[], object]) -> None:
    from simplepcfg.training.step.step import Step

    call, calls = Step.__call__, iter(range(10**6))

    def stopping(self, *given, **named):
        if next(calls) == step:
            action()
        return call(self, *given, **named)

    Step.__call__ = stopping  # type: ignore[method-assign]


def _wait_for_the_other() -> None:
    """Do nothing until the first process has said that nobody answers, or for a minute."""
    said = Path(os.readlink("/proc/self/fd/2")).with_name("err-0")
    deadline = time.monotonic() + 60
    while "did not answer" not in said.read_text("utf-8") and time.monotonic() < deadline:
        time.sleep(0.02)


def _rank() -> int:
    return int(os.environ["RANK"])


def _become_one_of(processes: int, rank: int, port: int, folder: Path) -> None:
    """Take the environment of a process that torchrun starts, and files for standard output and standard error."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / f"{name}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)


def next_task() -> list[str]:
    """Fork for every line of standard input; return its arguments in the forked processes, never in this one."""
    sys.modules["triton"] = None  # type: ignore[assignment]  # not needed, and it complains of what is frozen below
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])  # what the first optimizer imports takes as long as torch
    gc.freeze()  # or each forked process copies and searches all of that when it ends
    while line := sys.stdin.readline():
        folder, processes, *arguments = json.loads(line)
        port = free_port()
        started: list[int] = []
        for rank in range(processes):
            started.append(os.fork())
            if not started[-1]:
                _become_one_of(processes, rank, port, Path(folder))
                return arguments
        print(json.dumps(exit_codes(started)), flush=True)
    sys.exit(0)


def free_port() -> int:
    """Return a port that nobody listens to, below those that a system gives to connections of other tests."""
    for port in random.sample(range(20000, 32000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port between 20000 and 32000")


def exit_codes(children: list[int]) -> list[int]:
    """Wait for all; end those that still run long after the first has ended, so that no test waits for ever."""
    codes: dict[int, int] = {}
    deadline = float("inf")
    while len(codes) < len(children):
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            codes[child] = os.waitstatus_to_exitcode(status)
            deadline = min(deadline, time.monotonic() + SECONDS_BETWEEN_ENDS)
            continue
        if time.monotonic() > deadline:
            for late in set(children) - set(codes):
                os.kill(late, signal.SIGKILL)
        time.sleep(0.005)
    return [codes[child] for child in children]


if __name__ == "__main__":
    task, *rest = next_task()
    if task == "train":
        sabotage(rest[0])
        code = run(["train", *rest[1:]])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # The interpreter takes a second to end; `threads` shows that nothing would run meanwhile.
    tasks = {"sharded": compare_shards, "gradients": compare_gradients, "bytes": count_bytes, "threads": list_threads}
    tasks[task](Path(rest[0]))
    os._exit(0)
