"""What engines add to parsing a corpus: Ray Data, Hugging Face datasets and the corpus command beside a plain loop.

    python benchmarks/engines.py [--run english] [--sentences 400] [--rounds 3] [--ways ray,datasets,command]

Needs `ray[data]` and `datasets` for those two. Each way parses the same sentences of the built-in treebank by one
process with one thread, from a fresh interpreter: once so many sentences and once three times as many. The difference
of the two is what counts, so that starting an engine and loading a grammar do not. Prints the ratio of processor time,
all processes of the engine included, and of time, medians over rounds in turns, and appends a row for each way to
results/engines.csv.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

import torch

from benchmarking.report import append_rows, environment
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.inference.batch_mapping import ParseRows

RESULTS = Path(__file__).parent / "results" / "engines.csv"
BATCH = 1000  # sentences, of the loop and of both engines
PR_SET_CHILD_SUBREAPER = 36
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def by_loop(run: str, file: Path, out: Path) -> None:
    """Parse in a loop over batches."""
    rows, lines = ParseRows(run), file.read_text().splitlines()
    with open(out, "w") as output:
        for start in range(0, len(lines), BATCH):
            output.writelines(f"{tree}\n" for tree in rows({"text": lines[start : start + BATCH]})["tree"])


def by_datasets(run: str, file: Path, out: Path) -> None:
    """Parse by Hugging Face datasets."""
    import datasets

    datasets.disable_caching()
    text = datasets.Dataset.from_dict({"text": file.read_text().splitlines()})
    parsed = text.map(ParseRows(run), batched=True, batch_size=BATCH)
    out.write_text("".join(f"{tree}\n" for tree in parsed["tree"]))


def by_ray(run: str, file: Path, out: Path) -> None:
    """Parse by one actor of Ray Data."""
    import ray

    ray.init(num_cpus=2, logging_level="ERROR", include_dashboard=False)
    rows = ray.data.from_items([{"text": line} for line in file.read_text().splitlines()], override_num_blocks=1)
    parsed = rows.map_batches(ParseRows, fn_constructor_args=(run,), batch_size=BATCH, concurrency=1)
    out.write_text("".join(f"{row['tree']}\n" for row in parsed.iter_rows()))


def by_command(run: str, file: Path, out: Path) -> None:
    """Parse by the corpus command."""
    folder = out.with_suffix(".parts")
    command = [sys.executable, "-m", "simplepcfg", "parse", run, str(file), "--device", "cpu", "--quiet"]
    subprocess.run([*command, "--out", str(folder), "--jobs", "1"], check=True)
    out.write_text("".join(part.read_text() for part in sorted(folder.glob("*.trees"))))


WAYS = {"loop": by_loop, "datasets": by_datasets, "ray": by_ray, "command": by_command}


def processor_seconds() -> float:
    """Return the processor time of this process and all that it has started, also of those that have ended."""
    parents, seconds = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # It has ended meanwhile.
            continue
        parents[int(folder.name)] = int(fields[1])
        seconds[int(folder.name)] = sum(map(int, fields[11:15])) / CLOCK_TICKS
    mine, size = {os.getpid()}, 0
    while size < len(mine):
        size = len(mine)
        mine |= {process for process, parent in parents.items() if parent in mine}
    return sum(seconds[process] for process in mine)


def seconds_of(way: str, run: str, file: Path, out: Path) -> tuple[float, float]:
    """Return processor seconds and seconds of one way in an interpreter of its own."""
    command = [sys.executable, __file__, "--one", way, "--run", run, str(file), str(out)]
    only_cpu = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **only_cpu})
    cpu, wall = json.loads(done.stdout.splitlines()[-1])
    return cpu, wall


def main() -> None:
    """Measure in turns, print and record; with `--one`, parse in one way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="english")
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default="ray,datasets,command")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # so that no process ends without being counted
        begun = time.monotonic()
        WAYS[given.one](given.run, *given.files)
        wall = time.monotonic() - begun
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        print(json.dumps([processor_seconds(), wall]))
        return
    ways = ["loop", *given.ways.split(",")]
    sizes = (given.sentences, 3 * given.sentences)
    seconds: dict[str, list[list[float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        lines = [" ".join(tree.words) + "\n" for tree in generate_treebank(sizes[1], seed=0)]
        for size in sizes:
            (folder / f"{size}.txt").write_text("".join(lines[:size]))
        for number in range(given.rounds):
            for way in ways:
                outs = [folder / f"{way}-{size}-{number}.trees" for size in sizes]
                few, many = (
                    seconds_of(way, given.run, folder / f"{size}.txt", out)
                    for size, out in zip(sizes, outs, strict=True)
                )
                if outs[1].read_text() != (folder / f"loop-{sizes[1]}-{number}.trees").read_text():
                    raise SystemExit(f"{way}: other trees than those of the loop")
                seconds[way].append([more - less for less, more in zip(few, many, strict=True)])
                print(way, *(f"{each:.2f}" for each in seconds[way][-1]), flush=True)
    where = environment(torch.device("cpu"))
    rows = []
    for way in ways[1:]:
        pairs = list(zip(seconds[way], seconds["loop"], strict=True))
        cpu, wall = (round(median(ours[part] / plain[part] for ours, plain in pairs), 3) for part in (0, 1))
        rows.append({"way": way, "run": given.run, "sentences": sizes[1] - sizes[0], "cpu_ratio": cpu, "ratio": wall})
        print(f"{way}: {cpu:.3f} times the processor time of a plain loop, {wall:.3f} times its time")
    append_rows(given.csv, [{**where, "load": round(os.getloadavg()[0], 1), **row} for row in rows])


if __name__ == "__main__":
    main()
