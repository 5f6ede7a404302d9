"""Estimate of the memory that training needs, made before anything is allocated.

A process that the system kills for lack of memory could not tell the user why.
"""

from dataclasses import dataclass

import torch

from simplepcfg.errors import ResourceError
from simplepcfg.evaluation.likelihood import cells_a_batch
from simplepcfg.models import ModelConfig, build_model
from simplepcfg.models.sharding import row_groups
from simplepcfg.models.without_memory import without_memory
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import Corpus
from simplepcfg.runs.device import chosen_precision
from simplepcfg.runs.memory import available_memory

FLOAT = 4  # bytes of a float32
HALF = 2
# Copies on a CPU. Rules: logits, probabilities and the gradients of both. Emissions: logits, exponentials, gradient.
RULE_COPIES, EMISSION_COPIES = 4, 3
# Numbers for each nonterminal and cell of a batch's square chart on a CPU, and for each row of a packed one on a GPU.
SQUARE_COPIES, PACKED_COPIES = 4, 6
# On a GPU rules are computed some rows at a time, in buffers of about CHUNKS bytes, which include the workspaces
# of cuBLAS. The logits of the forward pass and their gradient in the backward pass
# have two more buffers, together no larger than the rules. Where the gradient by all rules is held, the logits are
# freed before it exists, and the two buffers exceed RULE_BUFFERS only above 130,000 symbols; where it is not held, they
# exceed LOGIT_BUFFERS only above 260,000 symbols.
CHUNKS, RULE_BUFFERS, LOGIT_BUFFERS = 352 * 2**20, 1024 * 2**20, 2048 * 2**20
# Numbers of a chart's forward pass, for each nonterminal and cell of the square chart, half of which are rows.
FORWARD_COPIES = 1.5
# Probabilities of all words are kept for the backward pass up to this size; larger ones pass through the buffers.
KEPT_WORDS = 512 * 2**20
# On a CPU, probabilities of words above that size are recomputed in parts; these and what is between are no larger.
WORD_BUFFERS = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Part:
    """Memory of one part of training, and the configuration keys that make it smaller."""

    what: str
    size: int  # bytes
    keys: str
    stays: bool = False  # whether it is held between steps, too


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """Estimated memory of training, whether steps can be captured as CUDA graphs as well, and a line for the user."""

    size: int  # bytes
    capture: bool
    note: str


def estimate(
    model: ModelConfig,
    vocabulary: int,
    batch: int,
    longest: int,
    device: str = "cpu",
    precision: str = "fp32",
    averaged: bool = False,
    shards: int = 1,
) -> list[Part]:
    """Estimate the memory, part by part, of a training step on `batch` sentences of `longest` words.

    `vocabulary` is the number of words, `device` "cpu" or "cuda"; `averaged` adds the EMA of the weights. Symbols that
    state dropout leaves out are counted as if they took part. With `shards` it is the memory of one of so many
    processes that share a grammar.
    """
    with without_memory():  # Only the shapes are needed.
        built = build_model(model, vocabulary)
        weights = sum(parameter.numel() for parameter in built.parameters())
        gathered = 0
        if shards > 1:
            own = sum(built.get_parameter(name).numel() for name in row_groups(built))
            weights -= own - own // shards
            # Features of the children of all processes, and their gradient.
            gathered = 2 * 2 * sum(built.symbol_groups) * model.embedding  # type: ignore
    sizes = model.sizes(batch).divided(shards)
    on_gpu = device == "cuda"
    item = HALF if on_gpu and precision == "bf16" and not sizes.full_precision else FLOAT
    table = sizes.tags * sizes.emission_tables
    if on_gpu:
        # Weights, the flat gradients and those of autograd, two moments; and the weights in the precision of products.
        kept = 5 * FLOAT * weights + (HALF * weights if item == HALF else 0)
        held = sizes.rule_gradient or item != HALF
        rules = sizes.rules * item
        by_rules = rules + (rules + min(rules, RULE_BUFFERS) if held else min(rules, LOGIT_BUFFERS)) + CHUNKS
        by_words = EMISSION_COPIES * FLOAT * batch * longest * sizes.tags
        by_words += min(table * vocabulary * item, KEPT_WORDS)
        spans, copies = batch * longest * (longest + 1) // 2, PACKED_COPIES * item
    else:
        kept = 4 * FLOAT * weights
        by_rules = RULE_COPIES * sizes.rules * FLOAT
        by_words = min(EMISSION_COPIES * FLOAT * table * vocabulary, KEPT_WORDS + WORD_BUFFERS)
        spans, copies = batch * (longest + 1) ** 2, SQUARE_COPIES * FLOAT
    kept += FLOAT * weights if averaged else 0
    chart = copies * (sizes.span_numbers * spans + sizes.word_numbers * batch * longest)
    emission_keys = "training.batch_size" if on_gpu else "data.vocabulary_size"
    return [
        Part("weights", kept, sizes.weight_keys, stays=True),
        Part("networks", (sizes.activations + gathered) * item, sizes.network_keys),
        Part("rules", by_rules, sizes.rule_keys),
        Part("emissions", by_words, f"{sizes.tag_keys} or {emission_keys}"),
        Part("chart", chart, "training.batch_size or data.max_length"),
    ]


def require_memory(
    config: RunConfig, corpus: Corpus, device: torch.device, mesh: tuple[int, int] = (1, 1), here: int = 1
) -> MemoryNeeds:
    """Return the memory that training on this text needs; raise ResourceError if less is free now.

    Of the processes of `mesh`, data × grammar, `here` share this machine's memory, if they train on its CPU.
    """
    settings = config.training
    batch = -(-min(settings.batch_size, len(corpus.train)) // mesh[0])
    precision = chosen_precision(settings.precision, device)
    sizes = (len(corpus.vocabulary), batch, int(corpus.train.lengths.max()), device.type, precision)
    parts = estimate(config.model, *sizes, averaged=settings.ema_decay > 0, shards=mesh[1])
    stay = sum(part.size for part in parts if part.stays)
    step = sum(part.size for part in parts) - stay
    free = available_memory(device)
    if free is not None and device.type == "cpu":
        free //= here
    # The memory of an uncaptured step is free between epochs for validation, whose rules are in float32.
    rules = FLOAT * config.model.sizes(batch).rules // mesh[1]
    validation = rules + _charts(config.model, corpus, device) if device.type == "cuda" else 0
    launched = stay + max(step, validation)
    if free is not None and launched > free:
        largest = max(parts, key=lambda part: part.size)
        which, size = f"the {largest.what}", largest.size
        if validation > step and rules > size:
            which, size = "validation's rules in float32", rules
        raise ResourceError(
            f"training would take about {in_gib(launched)}, of which {in_gib(size)} for {which}, but {in_gib(free)} "
            f"are free on {device}; lower {largest.keys}"
        )
    # Captured steps have a memory pool of their own.
    asked = device.type == "cuda" and settings.captured_shapes > 0 and mesh[1] == 1
    capture = asked and (free is None or launched + step <= free)
    needed = launched + (step if capture else 0)
    shares = ", ".join(f"{part.what} {in_gib(part.size)}" for part in sorted(parts, key=lambda part: -part.size))
    also = "; steps twice, captured and launched" if capture else ""
    also += f"; validation {in_gib(validation)}" if validation > step else ""
    beside = "" if free is None else f" of {in_gib(free)} free on {device}"
    note = f"memory: about {in_gib(needed)}{beside} ({shares}{also})"
    if asked and not capture:
        note += "; too little to capture steps, so they are launched one by one"
    return MemoryNeeds(needed, capture, note)


def _charts(model: ModelConfig, corpus: Corpus, device: torch.device) -> int:
    """Return the bytes of the charts of a validation batch, which may take a fixed share of the GPU's memory."""
    cells, sizes = corpus.valid.lengths**2, model.sizes(1)
    largest = max(min(int(cells.sum()), cells_a_batch(sizes, device)), int(cells.max(initial=1)))
    return int(FORWARD_COPIES * FLOAT * sizes.span_numbers * largest)


def in_gib(size: int) -> str:
    """Return a number of bytes as text."""
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 / 10 else f"{size / 2**20:,.1f} MiB"
