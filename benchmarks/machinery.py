"""What each piece of machinery of the training step is worth: the same step with it and without it.

    python benchmarks/machinery.py [--sizes 4096,512] [--pieces pair,word] [--commit NAME]

Needs torch, triton, pydantic, nltk, safetensors and tomli_w (PYTHONPATH=src where the package is not installed), and a
GPU; `--device cpu --sizes 5` runs everything once in Triton's interpreter (TRITON_INTERPRET=1), to test this script.

The step is `training.step.Step` of the configuration sn-pcfg-4096 with N of --sizes, P = 2N and no state dropout, in
bf16 and captured as CUDA graphs, on a batch of equal lengths. Both ways start from the same weights and must have the
same loss over the first steps, within --tolerance. They are then timed in turns, so that the clock of the GPU affects
both alike. The background writer is timed by short trainings of the first size with a checkpoint every few steps, in
seconds. machinery_pieces.py says what stands in for each piece. Appends to results/machinery.csv.
"""

import argparse
import copy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import nn

from benchmarking.report import append_rows, environment
from machinery_pieces import STEP_PIECES, WRITER, Piece, interpreted
from simplepcfg.data.batching import Batch
from simplepcfg.models import build_model
from simplepcfg.ops.capture import Capturer, Launch, side_stream
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.device import set_precision
from simplepcfg.training import train
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.ema import WeightEMA
from simplepcfg.training.step.step import Step

RESULTS = Path(__file__).parent / "results" / "machinery.csv"
COMPARED_STEPS = 3  # whose losses must agree; the second one is captured
COMPARED_RATE, TIMED_RATE = 1e-3, 1e-6  # learning rates; while time is measured, weights should stay as they are
ROUND_MS = 60.0  # about how long one way is timed before it is the other's turn
STEP_UNIT = "ms a step"
HEADER = f"{'piece':<54}{'with':>10}{'without':>10}{'gain %':>9}{'lines':>7}  loss differs by"


class Direct:
    """Stands in for the capture of CUDA graphs on a CPU."""

    def capture(self, function: Launch) -> Launch:
        """Return the function itself."""
        return function


class Way:
    """A training step with its own model, built and run inside a context."""

    def __init__(
        self, arguments: argparse.Namespace, config: RunConfig, untrained: nn.Module, piece: Piece | None
    ) -> None:
        self._context = piece.without if piece is not None else nullcontext
        device = torch.device(arguments.device)
        is_captured = piece is None or piece.captured
        capturer: Capturer | None = Direct() if device.type == "cpu" else None  # on a GPU `Step` makes its own
        torch.manual_seed(0)
        words = torch.randint(1, arguments.words + 1, (arguments.batch, arguments.length))
        self._batch = Batch(words, torch.full((arguments.batch,), arguments.length), list(range(arguments.batch)))
        model = copy.deepcopy(untrained).to(device)
        set_precision(model, "bf16", device)
        model.train()
        with self._context():
            self._step = Step(
                model,
                config.training,
                0,
                Group(),
                ema=WeightEMA(model, config.training.ema_decay),
                captured_shapes=config.training.captured_shapes if is_captured else 0,
                capturer=capturer,
                note=print,
            )

    def first_losses(self) -> float:
        """Run the first steps; return the mean loss of a token."""
        self.run(COMPARED_STEPS, COMPARED_RATE)
        loss, tokens, *_ = self._step.counters.read()
        return loss / tokens

    def run(self, steps: int, rate: float = TIMED_RATE) -> float:
        """Run some steps; return the milliseconds that each took."""
        with self._context():
            synchronize(self._step.device)
            began = time.perf_counter()
            for _ in range(steps):
                self._step(self._batch, len(self._batch), rate)
            synchronize(self._step.device)
            return 1000 * (time.perf_counter() - began) / steps


def main() -> int:
    """Measure, print and record; 1 if a piece could not be measured or changes the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="4096,512", help="values of N, separated by commas")
    parser.add_argument("--pieces", default="", help="parts of names, separated by commas; all by default")
    parser.add_argument("--words", type=int, default=10_000, help="size of the vocabulary, V")
    parser.add_argument("--embedding", type=int, default=512, help="D")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=21)
    parser.add_argument("--rounds", type=int, default=8, help="turns of each way")
    parser.add_argument("--training-steps", type=int, default=60, help="of the training that writes checkpoints")
    parser.add_argument("--checkpoint-steps", type=int, default=20, help="steps between two of its checkpoints")
    parser.add_argument("--tolerance", type=float, default=2e-3, help="of the loss, relative")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--commit", help="what was measured, where the tree has no history")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA GPU here; --device cpu tests the script at a tiny size")
    wanted = [name.strip() for name in arguments.pieces.split(",")]
    where = environment(device, arguments.commit)
    failed = False
    with nullcontext() if device.type == "cuda" else interpreted():
        sizes = [int(size) for size in arguments.sizes.split(",")]
        for states in sizes:
            config = configuration(arguments, states)
            print(f"N = {states}, P = {2 * states}, {arguments.batch} × {arguments.length} words, milliseconds a step")
            print(HEADER, flush=True)
            for row in step_rows(arguments, config, [p for p in STEP_PIECES if any(w in p.name for w in wanted)]):
                failed |= record(arguments, where, row)
            print()
        if any(name in WRITER.name for name in wanted):
            print(HEADER, flush=True)
            failed |= record(arguments, where, writer_row(arguments, configuration(arguments, sizes[0])))
    return int(failed)


def configuration(arguments: argparse.Namespace, states: int) -> RunConfig:
    """Return the built-in configuration with the sizes that are measured."""
    overrides = [
        f"model.nonterminals={states}",
        f"model.preterminals={2 * states}",
        f"model.embedding={arguments.embedding}",
        f"data.vocabulary_size={arguments.words + 1}",
        f"training.batch_size={arguments.batch}",
        f"training.checkpoint_steps={arguments.checkpoint_steps}",
        "training.state_dropout=0",
        "training.epochs=1",
    ]
    return load_config("sn-pcfg-4096", overrides, environment={})


def step_rows(arguments: argparse.Namespace, config: RunConfig, pieces: list[Piece]) -> Iterator[dict[str, object]]:
    """Yield the row of each piece: the whole step with it and without it."""
    if not pieces:
        return
    with side_stream(torch.device(arguments.device)):
        torch.manual_seed(0)
        untrained = build_model(config.model, arguments.words + 1)
        make = partial(Way, arguments, config, untrained)
        usual = make(None)
        expected = usual.first_losses()
        for piece in pieces:
            yield describe(arguments, config, piece, STEP_UNIT) | compare(
                arguments, usual, expected, partial(make, piece)
            )
            empty_cache(arguments.device)


def compare(
    arguments: argparse.Namespace, usual: Way, expected: float, make_other: Callable[[], Way]
) -> dict[str, object]:
    """Return times and losses of the usual step and of the step without a piece; why not, where it fails."""
    try:
        other = make_other()
        loss = other.first_losses()
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(arguments.rounds + 1):
            for way, measured in zip((usual, other), times, strict=True):
                steps = 1 if not turn else max(1, min(50, round(ROUND_MS / measured[0])))
                measured.append(way.run(steps))
        with_piece, without = (each[1:] for each in times)  # the first turn only says how long a step takes
    except Exception as error:  # one failure leaves the other pieces to be measured
        return outcome([], [], expected, float("nan"), f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")
    return outcome(with_piece, without, expected, loss, disagreement(arguments, expected, loss))


def writer_row(arguments: argparse.Namespace, config: RunConfig) -> dict[str, object]:
    """Return the row of the background writer, timed by short trainings, of which the first compiles kernels."""
    steps, count = arguments.training_steps, arguments.training_steps // arguments.checkpoint_steps
    unit = f"s a training of {steps} steps and {count + 1} checkpoints"
    torch.manual_seed(0)
    words = torch.randint(
        0, arguments.words, (steps * arguments.batch, arguments.length - 1)
    )  # and the end of sentence
    lines = [" ".join(f"w{word}" for word in sentence) for sentence in words.tolist()]
    seconds: tuple[list[float], list[float]] = ([], [])
    losses = []
    for turn, usual in enumerate((True, True, False, True, False)):
        with nullcontext() if usual else WRITER.without(), tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            result = train(
                config, Path(folder) / "run", device=arguments.device, train_text=lines, valid_text=lines[:16]
            )
            elapsed = time.perf_counter() - began
        if turn:
            seconds[0 if usual else 1].append(elapsed)
            losses.append(result.best.log_likelihood)
    empty_cache(arguments.device)
    reason = disagreement(arguments, losses[0], losses[1])
    return describe(arguments, config, WRITER, unit) | outcome(*seconds, losses[0], losses[1], reason)


def describe(arguments: argparse.Namespace, config: RunConfig, piece: Piece, unit: str) -> dict[str, object]:
    """Return the columns that say what was measured."""
    return {
        "piece": piece.name,
        "unit": unit,
        "B": arguments.batch,
        "n": arguments.length,
        "N": config.model.nonterminals,
        "P": config.model.preterminals,
        "D": arguments.embedding,
        "V": arguments.words,
        "lines": piece.lines,
    }


def outcome(
    with_piece: list[float], without: list[float], expected: float, loss: float, failure: str
) -> dict[str, object]:
    """Return the columns with the result; times are medians, and there are none where measuring failed."""
    times = [median(each) if each else None for each in (with_piece, without)]
    gain = None if times[0] is None or times[1] is None else round(100 * (times[1] / times[0] - 1), 2)
    return {
        "with": times[0] and round(times[0], 4),
        "without": times[1] and round(times[1], 4),
        "gain_percent": gain,
        "loss": round(expected, 6),
        "loss_difference": None if loss != loss else f"{abs(loss / expected - 1):.1e}",
        "failure": failure,
    }


def disagreement(arguments: argparse.Namespace, expected: float, loss: float) -> str:
    """Return what is wrong where two losses differ by more than the tolerance."""
    if abs(loss / expected - 1) <= arguments.tolerance:
        return ""
    return f"the loss is {loss:.6g} instead of {expected:.6g}"


def record(arguments: argparse.Namespace, where: dict[str, object], row: dict[str, object]) -> bool:
    """Append a row and print it; return whether it failed."""
    append_rows(arguments.csv, [where | row])
    numbers = "".join(
        f"{'–' if row[name] is None else format(row[name], '.3f'):>{width}}"
        for name, width in (("with", 10), ("without", 10), ("gain_percent", 9))
    )
    print(f"{row['piece']:<54}{numbers}{row['lines']:>7}  {row['loss_difference'] or '–'}", flush=True)
    if row["unit"] != STEP_UNIT:
        print(f"    {row['unit']}")
    if row["failure"]:
        print(f"    {row['failure']}", flush=True)
    return bool(row["failure"])


def synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def empty_cache(device: str) -> None:
    """Free the memory of steps that are no longer used."""
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
