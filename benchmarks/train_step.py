"""Real training through the public entry point: time of steps and epochs, memory; then of scoring and parsing.

    python benchmarks/train_step.py TRAIN [--valid FILE] [--test FILE] [--nonterminals 4096] [--epochs 2] [--steps 0]

TRAIN is a text of one sentence a line; test sentences are scored and parsed (minimum Bayes risk) with the model of the
run, or with an untrained one of its size if --steps ended the run: time does not depend on the weights. Also says how
many times the floor of its matrix products a step takes. Needs torch, triton, pydantic, nltk, safetensors and tomli_w
(PYTHONPATH=src where the package is not installed). Appends a row to results/train_step.csv.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarking.report import append_rows, environment
from benchmarking.sizes import Size
from benchmarking.timing import Machine, Times
from floors import StepSize
from simplepcfg import Run
from simplepcfg.data.readers import read_sentences
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import SimplePCFGError
from simplepcfg.inference.run import load
from simplepcfg.models import build_model
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.device import resolve_device
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import Reporter, train
from simplepcfg.training.reporting.progress import EpochReport, StepReport
from step_timing import StepTime, timed_steps

RESULTS = Path(__file__).parent / "results" / "train_step.csv"


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path, help="training text, one sentence a line")
    parser.add_argument("--valid", type=Path, help="validation text; otherwise 5 %% is held out")
    parser.add_argument("--test", type=Path, help="text to score and parse; otherwise neither is measured")
    parser.add_argument("--test-sentences", type=int, default=0, help="only the first so many of it; 0 takes all")
    parser.add_argument("--config", default="sn-pcfg-4096")
    parser.add_argument("--nonterminals", type=int, default=4096)
    parser.add_argument("--preterminals", type=int, default=0, help="twice the nonterminals by default")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=0, help="end after so many steps; 0 trains all epochs")
    parser.add_argument("--sentences", type=int, default=0, help="train on the first so many only; 0 takes all")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--captured", type=int, default=96, help="training.captured_shapes; 0 launches one by one")
    parser.add_argument("--length", type=int, default=21, help="the milliseconds of batches of this length are shown")
    parser.add_argument(
        "--only-length",
        action="store_true",
        help="train on sentences of that length alone: few steps of a large grammar",
    )
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--commit", help="what was measured, where the tree has no history")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            row = measure(arguments, Path(folder) / "run")
    except SimplePCFGError as error:
        parser.error(str(error))
    append_rows(arguments.csv, [row])


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Train, then score and parse."""
    device = resolve_device(arguments.device)
    config = configuration(arguments)
    lines = first_lines(arguments.train, arguments.sentences)
    if arguments.only_length:
        lines = of_length(lines, arguments.length - config.data.eos)
    watch = Watch(arguments.steps)
    reset_peak(device)
    with timed_steps() as timer, suppress(Enough):
        train(
            config,
            folder,
            device=arguments.device,
            reporter=watch,
            train_text=lines,
            valid_text=None if arguments.valid is None else first_lines(arguments.valid, 0),
        )
    row = training_figures(arguments, config, timer.results(), watch)
    row |= above_floor(arguments, config, folder, row["ms_p50"]) | peak(device)
    show(row, "")
    row |= use_figures(arguments, config, folder, device)
    return row | environment(device, arguments.commit)


def configuration(arguments: argparse.Namespace) -> RunConfig:
    """The built-in configuration with what was asked for."""
    overrides = [
        f"model.nonterminals={arguments.nonterminals}",
        f"model.preterminals={arguments.preterminals or 2 * arguments.nonterminals}",
        f"training.batch_size={arguments.batch}",
        f"training.epochs={arguments.epochs}",
        "training.patience=0",
        f"training.precision={arguments.precision}",
        f"training.captured_shapes={arguments.captured}",
    ]
    return load_config(arguments.config, [*overrides, *arguments.settings], environment={})


def of_length(lines: list[str], words: int) -> list[str]:
    """Sentences of so many words; all others as one too long to train on, so that the vocabulary stays the same."""
    kept = [line for line in lines if len(line.split()) == words]
    return [*kept, " ".join(line for line in lines if len(line.split()) != words)]


class Enough(Exception):
    """As many steps as were asked for."""


class Watch(Reporter):
    """When each epoch ended, its perplexity, and an end after some steps."""

    def __init__(self, steps: int) -> None:
        self._most = steps
        self.steps_by_epoch: dict[int, int] = {}
        self.ends = [time.monotonic()]
        self.perplexities: list[float] = []

    def note(self, text: str) -> None:
        """To be seen at once."""
        print(text, flush=True)

    def step(self, report: StepReport) -> None:
        """Count, and end the run where it has been long enough."""
        if not self.steps_by_epoch:
            self.ends[0] = time.monotonic()  # reading the text is no part of the first epoch
        self.steps_by_epoch[report.epoch] = self.steps_by_epoch.get(report.epoch, 0) + 1
        if report.step == self._most:
            raise Enough

    def epoch(self, report: EpochReport) -> None:
        """Training and validation; the checkpoint is written while the next epoch begins."""
        self.ends.append(time.monotonic())
        self.perplexities.append(report.valid.perplexity)
        self.note(report.describe())


def training_figures(
    arguments: argparse.Namespace, config: RunConfig, steps: list[StepTime], watch: Watch
) -> dict[str, Any]:
    """Of the last whole epoch, or the later half of the steps, of which none is before a validation.

    Kernels are compiled and shapes captured before.
    """
    whole = list(watch.steps_by_epoch.values())[: len(watch.ends) - 1]
    if len(whole) > 1:
        last = steps[sum(whole[:-1]) : sum(whole)]
    else:
        ended = sum(whole) if sum(whole) < len(steps) else 0
        last = steps[max(len(steps) // 2, ended) :]
    shown = [step.milliseconds for step in last if step.n == arguments.length and step.batch == arguments.batch]
    times = Times.of(shown) if shown else None
    seconds = (last[-1].begin + last[-1].milliseconds - last[0].begin) / 1000
    epochs = [end - begin for begin, end in zip(watch.ends, watch.ends[1:], strict=False)]
    return {
        "data": arguments.train.name + (f", n = {arguments.length} alone" if arguments.only_length else ""),
        "N": config.model.nonterminals,
        "P": config.model.preterminals,
        "embedding": config.model.embedding,
        "B": arguments.batch,
        "precision": arguments.precision,
        "captured": arguments.captured,
        "steps": len(steps),
        "n": arguments.length,
        "steps_at_n": len(shown),
        **{f"ms_{name}": times and round(getattr(times, name), 4) for name in ("p20", "p50", "p80")},
        "mean_ms": round(1000 * seconds / len(last), 4),
        "replayed_percent": round(100 * sum(step.replayed for step in last) / len(last), 1),
        "words_per_s": round(sum(step.words for step in last) / seconds, 1),
        "first_epoch_s": round(epochs[0], 2) if epochs else None,
        "epoch_s": round(median(epochs[1:]), 2) if len(epochs) > 1 else None,
        "steps_s": round(seconds, 2),
        "valid_perplexity": round(watch.perplexities[-1], 2) if watch.perplexities else None,
    }


def above_floor(
    arguments: argparse.Namespace, config: RunConfig, folder: Path, milliseconds: float | None
) -> dict[str, object]:
    """What a step's matrix products take at a GPU's rate in bf16 or a CPU's in float32, and how many times it took."""
    model = config.model
    if model.kind != "sn-pcfg" or arguments.precision not in {"auto", "bf16"}:
        return {"floor_ms": None, "ratio": None}
    inside = Size(arguments.batch, arguments.length, model.nonterminals, model.preterminals)
    words = len(Vocabulary.load(RunFolder(folder).vocabulary))
    work = StepSize(inside, model.embedding, words, model.emission_blocks).step()
    device = resolve_device(arguments.device)
    on_gpu = device.type == "cuda"
    floor = work.floor_ms() if on_gpu else 1e3 * work.flops / Machine(device).flops_per_second("fp32")
    return {"floor_ms": round(floor, 4), "ratio": milliseconds and round(milliseconds / floor, 3)}


def use_figures(
    arguments: argparse.Namespace, config: RunConfig, folder: Path, device: torch.device
) -> dict[str, object]:
    """Seconds to score and to parse the test sentences, kernels compiled before; and the memory of each."""
    names = ("score_s", "score_peak_mb", "parse_s", "parse_peak_mb")
    figures: dict[str, object] = {"test_sentences": None, **dict.fromkeys(names)}
    if arguments.test is None:
        return figures
    run = trained_or_not(config, folder, arguments.device)
    sentences = first_lines(arguments.test, arguments.test_sentences)
    figures["test_sentences"] = len(sentences)
    jobs: tuple[tuple[str, Callable[[list[str]], object]], ...] = (("score", run.score), ("parse", run.parse_spans))
    for name, job in jobs:
        job(sentences[:64])
        reset_peak(device)
        began = time.monotonic()
        job(sentences)
        figures[f"{name}_s"] = round(time.monotonic() - began, 3)
        figures[f"{name}_peak_mb"] = peak(device)["peak_mb"]
    show(figures, "  ")
    return figures


def trained_or_not(config: RunConfig, folder: Path, device: str) -> Run:
    """The run's best model if there is one, else a fresh one with the same vocabulary."""
    if RunFolder(folder).model.exists():
        return load(folder, device)
    vocabulary = Vocabulary.load(RunFolder(folder).vocabulary)
    return Run(build_model(config.model, len(vocabulary)).to(resolve_device(device)), vocabulary, config)


def first_lines(path: Path, count: int) -> list[str]:
    """Sentences of a text, all of them if `count` is 0."""
    lines = [" ".join(words) for words in read_sentences(path)]
    return lines[:count] if count else lines


def reset_peak(device: torch.device) -> None:
    """Count the peak of memory from here."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak(device: torch.device) -> dict[str, object]:
    """Megabytes on the GPU at the worst moment: in tensors, and held by torch."""
    if device.type != "cuda":
        return {"peak_mb": None, "peak_reserved_mb": None}
    allocated, reserved = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
    return {"peak_mb": round(allocated / 1e6, 1), "peak_reserved_mb": round(reserved / 1e6, 1)}


def show(row: dict[str, object], indent: str) -> None:
    """For a person."""
    print(indent + ", ".join(f"{name} {value}" for name, value in row.items() if value is not None), flush=True)


if __name__ == "__main__":
    main()
