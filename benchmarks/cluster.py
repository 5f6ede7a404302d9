"""Training steps on a mesh of CPU processes: memory, bytes over the wire and processor time of each process.

    python benchmarks/cluster.py [--nonterminals 1024] [--processes 2,4,8]
    python benchmarks/cluster.py --predict   # the table of docs/clusters.md

A process's memory is the most that its tensors take at a time, from the making of the model to the end of the second
step: no memory of the interpreter, of libraries or of gloo is in it. Bytes are those of the tensors that
pass through collectives. Time is processor time, which waiting for other processes is no part of. Appends a row for
each number of processes to results/cluster_cpu.csv.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarking.report import append_rows, environment
from simplepcfg.data.batching import Batch, collate
from simplepcfg.files import Record
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.models.sharding import shard_model
from simplepcfg.ops.shards import Shards
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.cluster_plan import StepShape, Traffic, flops, step_time, step_traffic
from simplepcfg.training.memory_estimate import estimate
from simplepcfg.training.step.distributed import DistributedGroup, Group
from simplepcfg.training.step.step import Step

WORDS, LENGTH, SENTENCES, EMBEDDING = 500, 20, 8, 32
CALLS, ROWS, NUMBERS = 30, 80, 1024  # tensors of float32 numbers, to measure what collectives cost by themselves
KINDS = ("gathered", "scattered", "reduced")
GPU_GB = 141  # of an H200
RESULTS = Path(__file__).parent / "results" / "cluster_cpu.csv"


class PeakOfTensors(TorchDispatchMode):
    """The most bytes that tensors have taken after any operation, counted by what each operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._total = 0  # of what was counted, some of which may be gone
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """Call an operation and count what is there after it."""
        results = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(results):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                reference = StorageWeakRef(storage)
                self._total -= self._alive.get(reference.cdata, (None, 0))[1]
                self._total += storage.nbytes()
                self._alive[reference.cdata] = (reference, storage.nbytes())
        if self._total > self.peak:
            self._alive = {key: held for key, held in self._alive.items() if not held[0].expired()}
            self._total = sum(size for _, size in self._alive.values())
            self.peak = max(self.peak, self._total)
        return results


class CountedBytes(TorchDispatchMode):
    """Sums the bytes of the tensors that pass through collectives, by kind."""

    def __init__(self) -> None:
        super().__init__()
        self.sums = {"gathered": 0, "scattered": 0, "reduced": 0, "collectives": 0}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """Count a collective and call it."""
        name = str(function)
        if name.startswith("c10d."):
            kind = next(kind for kind in ("gather", "scatter", "allreduce") if kind in name)
            whole = {"gather": args[0], "scatter": args[1], "allreduce": args[0][0]}[kind]
            names = {"gather": "gathered", "scatter": "scattered", "allreduce": "reduced"}
            self.sums[names[kind]] += whole.nbytes
            self.sums["collectives"] += 1
        return function(*args, **(kwargs or {}))


def expected_bytes(traffic: Traffic) -> dict[str, int]:
    """Return what `CountedBytes` counts if a plan is right."""
    planned = asdict(traffic)
    reduced = planned["agreed"] + planned["summed"] + planned["summed_over_data"]
    return {**{name: planned[name] for name in ("gathered", "scattered", "collectives")}, "reduced": reduced}


def make_config(states: int) -> SimpleNPCFGConfig:
    """Return the configuration of a model with so many nonterminals."""
    return SimpleNPCFGConfig(nonterminals=states, preterminals=2 * states, embedding=EMBEDDING)


def make_step(states: int, group: Group) -> Step:
    """Return the step of a model of so many nonterminals, sharded if the group is."""
    model = SimpleNPCFG(make_config(states), WORDS)
    if group.shards is not None:
        shard_model(model, group.shards)
    return Step(model.train(), TrainingConfig(), 1, group)


def make_batch(sentences: int = SENTENCES, length: int = LENGTH) -> Batch:
    """Return random sentences."""
    generator = torch.Generator().manual_seed(0)
    return collate(torch.randint(1, WORDS, (sentences, length), generator=generator).tolist(), range(sentences))


def peak_of_steps(states: int, group: Group, batch: Batch) -> int:
    """Return the peak of making a model and training it for two steps."""
    with PeakOfTensors() as tensors:
        step = make_step(states, group)
        for _ in range(2):
            step(batch, len(batch), 1e-3)
    return tensors.peak


def measure(group: Group, states: int, steps: int) -> Record:
    """Return the peak memory, the counted bytes and the processor seconds of a step in one of several processes."""
    batch = make_batch()
    step = make_step(states, group)
    with CountedBytes() as counted:
        step(batch, SENTENCES, 1e-3)
    seconds = []
    for _ in range(steps):
        begun = time.process_time()
        step(batch, SENTENCES, 1e-3)
        seconds.append(time.process_time() - begun)
    costs = [0.0] * 3 if group.shards is None else collective_costs(group.shards)
    return {
        "bytes": counted.sums,
        "seconds": median(seconds),
        "peak": peak_of_steps(states, group, batch),
        "costs": costs,
    }


def collective_costs(shards: Shards) -> list[float]:
    """Return the processor seconds of gathering next to nothing, of a byte that is gathered, and of one scattered."""
    seconds = []
    for collective, numbers in ((shards.all_states, 1), (shards.all_states, NUMBERS), (shards.own_states, NUMBERS)):
        rows = torch.zeros(CALLS, ROWS, numbers if collective == shards.own_states else -(-numbers // shards.size))
        begun = time.process_time()
        for tensor in rows:
            collective(tensor)
        seconds.append((time.process_time() - begun) / CALLS)
    return [seconds[0], *((each - seconds[0]) / (4 * ROWS * NUMBERS) for each in seconds[1:])]


def in_processes(count: int, task: Callable[[Group], Record]) -> list[Record]:
    """Return what a task returns in each of so many processes that share a grammar, forked from this one."""
    port = random.randrange(20000, 32000)
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(count):
            child = os.fork()
            if not child:
                try:
                    Path(folder, str(rank)).write_text(json.dumps(task(make_group(rank, count, port))))
                finally:
                    os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        return [json.loads(Path(folder, str(rank)).read_text()) for rank in range(count)]


def make_group(rank: int, count: int, port: int, mesh: tuple[int, int] | None = None) -> Group:
    """Return the group of one of several processes, which share a grammar unless a mesh is given."""
    if count == 1 and mesh is None:
        return Group()
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
    group = DistributedGroup()
    group.arrange(torch.device("cpu"), mesh or (1, count), 10.0)
    return group


def measure_shards(states: int, counts: list[int], steps: int, csv: Path) -> None:
    """Print and append a row for each number of processes.

    The prediction of time is the work of one process divided by K, and for the collectives and their bytes, what
    they cost so many processes by themselves.
    """
    rows: list[Record] = []
    print("K\tMB\tK MB / MB of one\tMB through collectives\tas planned\tCPU s a step\tpredicted")
    for count in (1, *counts):
        results = in_processes(count, lambda group: measure(group, states, steps))
        shape = StepShape(make_config(states), WORDS, SENTENCES, LENGTH, (1, count), item=4)
        counted, planned = results[0]["bytes"], expected_bytes(step_traffic(shape))
        peak, seconds = (max(result[name] for result in results) for name in ("peak", "seconds"))
        if count == 1:
            alone, work_alone = peak, seconds / flops(shape)
        call, *bytes_of = results[0]["costs"]
        waiting = counted["collectives"] * call
        waiting += sum(counted[kind] * cost for kind, cost in zip(KINDS, bytes_of, strict=False))
        row = {
            "N": states,
            "processes": count,
            "peak_mb": round(peak / 1e6, 2),
            "relative": round(peak * count / alone, 3),
            "collective_mb": round(sum(counted[kind] for kind in KINDS) / 1e6, 3),
            # A CPU gathers β for the gradient of the rules in parts, so that there are more collectives than planned.
            "as_planned": count == 1 or all(counted[kind] == planned[kind] for kind in KINDS),
            "cpu_s": round(seconds, 4),
            "predicted_s": round(work_alone * flops(shape) + waiting, 4),
        }
        print(*list(row.values())[1:], sep="\t", flush=True)
        rows.append(row)
    where = environment(torch.device("cpu"))
    append_rows(csv, [{**where, "load": round(os.getloadavg()[0], 1), **row} for row in rows])


def predictions() -> list[str]:
    """Return the table of docs/clusters.md: steps of large grammars on H200 GPUs, by the plan's formulas."""
    lines = [
        "| N | mesh | GB | ms | waiting | M sentences/day |",
        "|---|---|---|---|---|---|",
    ]
    for states, meshes in ((8192, 2), (32768, 4), (131072, 3)):
        for mesh in ((8, 1), (1, 8), (8, 8), (1, 64))[:meshes]:
            config = SimpleNPCFGConfig(nonterminals=states, preterminals=2 * states, embedding=512)
            batch, length, vocabulary = 16 * mesh[0], 25, 10_000
            shape = StepShape(config, vocabulary, batch, length, mesh)
            parts = estimate(config, vocabulary, shape.own_batch, length, "cuda", "bf16", shards=mesh[1])
            memory = sum(part.size for part in parts) / 1e9
            seconds = step_time(shape)
            day = batch * 86400 / seconds.total / 1e6
            row = [f"{1e3 * seconds.total:,.1f}", f"{1e3 * seconds.wait:,.1f}", f"{day:,.0f}"]
            cells = [f"{states:,}", f"{mesh[0]}×{mesh[1]}", f"{memory:,.0f}", *row]
            if memory > GPU_GB:
                cells = [*cells[:2], f"{memory:,.0f}", *["–"] * len(row)]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nonterminals", type=int, default=1024)
    parser.add_argument("--processes", default="2,4,8", help="beside one alone")
    parser.add_argument("--steps", type=int, default=5, help="steps that are timed")
    parser.add_argument("--predict", action="store_true", help="print the table of docs/clusters.md instead")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.predict:
        print("\n".join(predictions()))
    else:
        measure_shards(given.nonterminals, [int(count) for count in given.processes.split(",")], given.steps, given.csv)


if __name__ == "__main__":
    main()
