"""A guess at the memory training takes, made before anything is allocated: a killed process explains nothing."""

from dataclasses import dataclass
from pathlib import Path

import torch

from simplepcfg.errors import ResourceError
from simplepcfg.models import ModelConfig, build_model
from simplepcfg.training.config import RunConfig
from simplepcfg.training.corpus import Corpus

FLOAT = 4  # bytes of a float32
WEIGHT_COPIES = 4  # weights, gradients, and Adam's two moments
RULE_COPIES = 4  # scores and probabilities, and the gradient of each
EMISSION_COPIES = 3  # scores, their exponentials, and the gradient
# Numbers for each nonterminal and cell of a batch's chart: the CPU keeps square charts, a card packed triangles.
CHART_COPIES = {"cpu": 4, "cuda": 1}


@dataclass(frozen=True, slots=True)
class Part:
    """One of the large things in memory, and the keys that make it smaller."""

    what: str
    size: int  # bytes
    keys: str


def estimate(model: ModelConfig, vocabulary: int, batch: int, longest: int, device: str = "cpu") -> list[Part]:
    """What a training step of `batch` sentences of `longest` words holds at once, part by part."""
    with torch.device("meta"):  # shapes only
        weights = sum(parameter.numel() for parameter in build_model(model, vocabulary).parameters())
    symbols = model.nonterminals + model.preterminals
    numbers = {
        ("weights", "model.embedding"): WEIGHT_COPIES * weights,
        ("rules", "model.nonterminals and model.preterminals"): RULE_COPIES * 2 * model.nonterminals * symbols,
        ("emissions", "model.preterminals or data.vocabulary_size"): EMISSION_COPIES * model.preterminals * vocabulary,
        ("chart", "training.batch_size or data.max_length"): (
            CHART_COPIES[device] * model.nonterminals * batch * (longest + 1) ** 2
        ),
    }
    return [Part(what, FLOAT * count, keys) for (what, keys), count in numbers.items()]


def require_memory(config: RunConfig, corpus: Corpus, device: torch.device) -> None:
    """ResourceError if training on this text would not fit into the memory that is free now."""
    free = available_memory(device)
    if free is None:
        return
    batch = min(config.training.batch_size, len(corpus.train))
    parts = estimate(config.model, len(corpus.vocabulary), batch, max(map(len, corpus.train)), device.type)
    needed = sum(part.size for part in parts)
    if needed > free:
        largest = max(parts, key=lambda part: part.size)
        raise ResourceError(
            f"training would take about {_gib(needed)}, of which {_gib(largest.size)} for the {largest.what}, but "
            f"{_gib(free)} are free on {device}; lower {largest.keys}"
        )


def available_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on a device, or None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
