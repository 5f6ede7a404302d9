"""The built-in configuration that suits a machine and an amount of text, and about how long a run will take."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch

from simplepcfg.errors import counted
from simplepcfg.models.simple_npcfg import SimpleNPCFGConfig
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.device import resolve_device

FEW_SENTENCES = 2_000  # below this no grammar of hundreds of symbols finds more than chance in a text
# Fewer want ten epochs of sn-pcfg-128, more have better trees after three of rank-pcfg-128 (docs/trees.md).
MANY_SENTENCES = 20_000
LONG = 12 * 3600  # seconds, after which something quicker is named
LARGE_GPU = 20 * 2**30  # bytes; a grammar of 4096 nonterminals trains in less
# What a step takes beside its matrix products (softmaxes, the optimiser, Python), as a factor: CPU seconds of an epoch
# over those of its products were 1.6 with `sn-pcfg-small` and 1.8 with 128 nonterminals and 256 preterminals.
BESIDE_PRODUCTS = 1.8
# What a step takes however small the model is: launching the operations of a step, and those of each width of span, and
# the sums over split points, for each nonterminal at each. Seconds, fitted on one ARM core to 11 sizes (16 to
# 512 nonterminals, 5 to 40 words), whose steps they give within 0.7 to 1.2. Whole runs take longer, since validation,
# saving and other programs are not counted: `demo` and 660 sentences of `sn-pcfg-small` took up to twice the estimate.
STEP_SECONDS, WIDTH_SECONDS, SPLIT_SECONDS = 8.5e-3, 0.6e-3, 3.7e-9
NOTABLE = 1.3  # times longer, from which other programs are mentioned
_MEASURED_SIZE, _MEASURED_TIMES = 384, 5


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A built-in configuration, and why."""

    config: str
    reason: str

    def __str__(self) -> str:
        return f"simplepcfg train {self.config} ({self.reason})"


def fitting_configuration(sentences: int, language_model: bool = False, device: str = "auto") -> Recommendation:
    """Return the configuration for so many training sentences on this machine, for trees or for perplexity."""
    chosen = resolve_device(device)
    if sentences < FEW_SENTENCES:
        return Recommendation("demo", "few sentences make a toy; give more")
    if chosen.type == "cuda":
        memory = torch.cuda.get_device_properties(chosen).total_memory
        if memory >= LARGE_GPU:
            return Recommendation("sn-pcfg-4096" if language_model else "sn-pcfg", "a GPU with room for 4096 symbols")
        return Recommendation("sn-pcfg-small", "a GPU with little memory")
    name = "rank-pcfg-128" if sentences >= MANY_SENTENCES else "sn-pcfg-128"
    return Recommendation("sn-pcfg-small-lm" if language_model else name, "no GPU: 128 nonterminals")


def estimated_seconds(config: RunConfig, lengths: Sequence[int], vocabulary: int, device: torch.device) -> float | None:
    """Estimate the seconds of all epochs on a CPU.

    None for other models than SN-PCFGs, and on a GPU, where the first steps tell within seconds.
    """
    model = config.model
    if not isinstance(model, SimpleNPCFGConfig) or device.type != "cpu" or not lengths:
        return None
    batch, states, tags = config.training.batch_size, model.nonterminals, model.preterminals
    steps = -(-len(lengths) // batch)
    # Forward and backward: rules and emissions, which do not depend on the batch; then spans, and words, of the chart.
    flops = steps * 6.0 * model.embedding * (tags * vocabulary + 2 * states * (states + tags))
    flops += 6.0 * states * states * sum(length * length for length in lengths) + 12.0 * states * tags * sum(lengths)
    products = BESIDE_PRODUCTS * flops / _flops_a_second(torch.get_num_threads())
    splits = states * sum(length**3 for length in lengths) / 6
    # A batch has sentences of about the same length, so that the widths of all batches are about the words / batch.
    rest = steps * STEP_SECONDS + sum(lengths) / batch * WIDTH_SECONDS + splits * SPLIT_SECONDS
    return config.training.epochs * (products + rest)


def time_note(config: RunConfig, lengths: Sequence[int], vocabulary: int, device: torch.device) -> str | None:
    """Return a line that says how long training will take and, where that is very long, what would be quicker."""
    seconds = estimated_seconds(config, lengths, vocabulary, device)
    if seconds is None:
        return None
    epochs = counted(config.training.epochs, "epoch")
    quiet, slower = spoken(seconds), slowdown_by_others()
    busy = spoken(slower * seconds)
    if slower < NOTABLE or busy == quiet:
        note = f"time: {quiet} for {epochs}, if no other program needs the CPU"
    else:
        note = f"time: {busy} for {epochs} beside the programs that use the CPU now, else {quiet}"
    if seconds > LONG:
        quicker = fitting_configuration(max(len(lengths), FEW_SENTENCES), config.data.eos, "cpu")
        same = load_config(quicker.config, environment={}).model == config.model
        note += "; lower training.epochs" if same else f"; quicker here: {quicker}"
    return note


def slowdown_by_others() -> float:
    """Return how much longer a run takes because of the programs that used the CPU in the last minute; 1 for none."""
    try:
        others = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows has no such count.
        return 1.0
    return max(1.0, (others + torch.get_num_threads()) / (os.cpu_count() or 1))


def spoken(seconds: float) -> str:
    """Say in words about how long that is."""
    if seconds < 1.5:
        return "about a second"
    if seconds < 90:
        return f"about {round(seconds)} seconds"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} minutes"
    return f"about {seconds / 3600:.1f} hours"


@cache
def _flops_a_second(threads: int) -> float:
    """Measure what one product of a common size reaches on this CPU, in bursts too short for other programs to matter.

    Measured once in a process for each number of threads, which must be the present one.
    """
    left = torch.full((_MEASURED_SIZE, _MEASURED_SIZE), 0.5)  # no draw: runs repeat bit for bit
    left @ left
    begun = time.perf_counter()
    for _ in range(_MEASURED_TIMES):
        left @ left
    return _MEASURED_TIMES * 2.0 * _MEASURED_SIZE**3 / (time.perf_counter() - begun)
