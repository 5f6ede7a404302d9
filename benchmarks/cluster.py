"""Memory and time of a sharded training step on a CPU: a process needs 1 / K, and what waiting costs.

    python benchmarks/cluster.py --nonterminals 1024 --processes 1,2,4

Each process is started anew, and its peak is that of the step beyond what a step of a tiny model has left.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

from simplepcfg.data.batching import collate
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.models.sharding import shard_model
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.cluster_plan import StepShape, step_time, step_traffic
from simplepcfg.training.memory_estimate import estimate
from simplepcfg.training.step.distributed import DistributedGroup, Group
from simplepcfg.training.step.step import Step

WORDS, LENGTH, SENTENCES, STEPS = 500, 20, 8, 3
GPU_GB = 141  # of an H200


def peak_bytes() -> int:
    """Return the largest resident memory of this process since it was last reset."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


def make_step(states: int, group: Group) -> Step:
    """Return the step of a model of so many nonterminals, sharded if the group is."""
    model = SimpleNPCFG(SimpleNPCFGConfig(nonterminals=states, preterminals=2 * states, embedding=32), WORDS)
    if group.shards is not None:
        shard_model(model, group.shards)
    return Step(model.train(), TrainingConfig(), 1, group)


def measure(rank: int, processes: int, port: int, states: int, out: str) -> None:
    """Train some steps in one of several processes, and write its peak memory and the fastest step."""
    torch.set_num_threads(1)
    group = Group()
    if processes > 1:
        address = f"tcp://127.0.0.1:{port}"
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=processes)
        group = DistributedGroup()
        group.arrange(torch.device("cpu"), (1, processes), 10.0)
    random = torch.Generator().manual_seed(0)
    batch = collate(torch.randint(1, WORDS, (SENTENCES, LENGTH), generator=random).tolist(), range(SENTENCES))
    make_step(4 * processes, group)(batch, SENTENCES, 1e-3)  # what torch loads and allocates once
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_bytes()
    step = make_step(states, group)
    seconds = []
    for _ in range(STEPS):
        begun = time.perf_counter()
        step(batch, SENTENCES, 1e-3)
        seconds.append(time.perf_counter() - begun)
    Path(out, str(rank)).write_text(f"{peak_bytes() - before} {min(seconds)}")


def predictions() -> list[str]:
    """Return the table of docs/clusters.md: steps of large grammars on H200 GPUs, by the plan's formulas."""
    lines = [
        "| N | mesh | GB of a GPU | MB over the wire | ms a step | of it waiting | M sentences a day |",
        "|---|---|---|---|---|---|---|",
    ]
    for states in (8192, 32768, 131072):
        for mesh in ((8, 1), (1, 8), (8, 8), (1, 64)):
            config = SimpleNPCFGConfig(nonterminals=states, preterminals=2 * states, embedding=512)
            batch, length, vocabulary = 16 * mesh[0], 25, 10_000
            shape = StepShape(config, vocabulary, batch, length, mesh)
            parts = estimate(config, vocabulary, shape.own_batch, length, "cuda", "bf16", shards=mesh[1])
            memory = sum(part.size for part in parts) / 1e9
            traffic, seconds = step_traffic(shape), step_time(shape)
            wire = (traffic.over_grammar(mesh[1]) if mesh[1] > 1 else 0.0) + traffic.over_all(mesh)
            day = batch * 86400 / seconds.total / 1e6
            row = [f"{wire / 1e6:,.0f}", f"{1e3 * seconds.total:,.1f}", f"{1e3 * seconds.wait:,.1f}", f"{day:,.0f}"]
            cells = [f"{states:,}", f"{mesh[0]} × {mesh[1]}", f"{memory:,.0f}", *row]
            if memory > GPU_GB:
                cells = [*cells[:2], f"{memory:,.0f}, too many", *["–"] * len(row)]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Print a row for each number of processes, or the predictions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nonterminals", type=int, default=1024)
    parser.add_argument("--processes", default="1,2,4")
    parser.add_argument("--predict", action="store_true", help="print the table of docs/clusters.md instead")
    given = parser.parse_args()
    if given.predict:
        print("\n".join(predictions()))
        return
    whole = 0
    print("processes\tpeak MB of a process\ttimes K, relative to one\tfastest step, s")
    for processes in map(int, given.processes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            port = 20000 + os.getpid() % 10000 + processes
            torch.multiprocessing.spawn(measure, (processes, port, given.nonterminals, folder), nprocs=processes)
            results = [file.read_text().split() for file in Path(folder).iterdir()]
        peak = max(int(peak) for peak, _ in results)
        whole = whole or peak * processes
        print(f"{processes}\t{peak / 1e6:.1f}\t{peak * processes / whole:.2f}\t{max(float(s) for _, s in results):.3f}")


if __name__ == "__main__":
    main()
