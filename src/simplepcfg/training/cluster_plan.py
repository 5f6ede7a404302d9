"""What a step on a mesh of processes will cost, before any of them is started: memory, bytes over the wire, time.

docs/clusters.md derives the formulas; a test counts the bytes of real steps.
"""

from dataclasses import dataclass

from simplepcfg.errors import InputError
from simplepcfg.models import ModelConfig, build_model
from simplepcfg.models.sharding import row_groups
from simplepcfg.models.simple_npcfg import SimpleNPCFGConfig
from simplepcfg.models.without_memory import without_memory
from simplepcfg.training.memory_estimate import estimate, in_gib
from simplepcfg.training.step.counters import BATCH
from simplepcfg.training.step.update import ALIGNMENT

FLOAT, DOUBLE = 4, 8  # bytes
# An H200's rate in steps of SN-PCFGs, and the seconds that a step takes whatever its size: fitted to the steps of 16
# sentences of 21 words at N = 4096 and 8192, which take 4.06 and 12.0 milliseconds.
FLOPS_A_SECOND, SECONDS_A_STEP = 4.5e14, 1.0e-3
GPUS_A_NODE = 8
SMALLEST = 2**20 / 10  # bytes of a part of memory that is shown


@dataclass(frozen=True, slots=True)
class Link:
    """A connection between GPUs: what collectives reach of its bandwidth, and the least time of each."""

    bytes_a_second: float  # into one GPU
    seconds: float


NVLINK = Link(350e9, 20e-6)
INFINIBAND = Link(40e9, 40e-6)


@dataclass(frozen=True, slots=True)
class StepShape:
    """Sizes of a training step of an SN-PCFG on a mesh: data × grammar."""

    config: SimpleNPCFGConfig
    vocabulary: int  # words, padding included
    batch: int  # sentences of all processes
    length: int  # words of each
    mesh: tuple[int, int]
    item: int = 2  # bytes of a number of the chart: 2 in bf16, 4 in float32

    @property
    def own_batch(self) -> int:
        """Sentences of one process."""
        return -(-self.batch // self.mesh[0])

    @property
    def rows(self) -> list[int]:
        """Spans of each width from 2 to n of one process's sentences."""
        return [self.own_batch * (self.length - width + 1) for width in range(2, self.length + 1)]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of the tensors that pass through the collectives of one process in a step, and how often it waits.

    In a ring of K processes each sends and receives (K − 1) / K of a tensor that is gathered or scattered, and twice
    that of one that is summed for all.
    """

    gathered: int  # over the processes that share a grammar
    scattered: int  # over the same, after summing
    agreed: int  # sums and maxima over the same
    summed: int  # gradients over all processes
    summed_over_data: int  # gradients over processes with the same symbols
    collectives: int

    def over_grammar(self, shards: int) -> float:
        """Return the bytes that a process receives from those that share its grammar."""
        return (self.gathered + self.scattered + 2 * self.agreed) * (shards - 1) / shards

    def over_all(self, mesh: tuple[int, int]) -> float:
        """Return the bytes that a process receives in sums of gradients."""
        processes = mesh[0] * mesh[1]
        return 2 * (self.summed * (processes - 1) / processes + self.summed_over_data * (mesh[0] - 1) / mesh[0])


def step_traffic(shape: StepShape) -> Traffic:
    """Count what passes through the collectives in a step of a batch of equal lengths."""
    config, (_, shards), rows = shape.config, shape.mesh, shape.rows
    states, tags, batch = config.nonterminals, config.preterminals, shape.own_batch
    with without_memory():
        model = build_model(config, shape.vocabulary)
    tables = row_groups(model)
    own = sum(_padded(model.get_parameter(name).numel() // shards) for name in tables)
    shared = sum(_padded(weight.numel()) for name, weight in model.named_parameters() if name not in tables)
    counters = DOUBLE * len(BATCH)
    if shards == 1:
        return Traffic(0, 0, 0, FLOAT * (shared + own) + counters, 0, 2)
    inner = rows[:-1]  # a whole sentence has no parent
    beta = sum(inner) * states * shape.item
    words = batch * shape.length * tags * FLOAT
    features = 2 * (states + tags) * config.embedding * FLOAT + states * FLOAT  # of children, and logits of the root
    agreed = sum(rows) * FLOAT + FLOAT + DOUBLE  # exponents of spans; overflow in the backward pass; norm
    ends = batch * shards * DOUBLE  # log Z
    return Traffic(
        gathered=2 * beta + words + features + ends,
        scattered=beta + words + features,
        agreed=agreed,
        summed=FLOAT * shared + counters,
        summed_over_data=FLOAT * own,
        collectives=len(rows) + 2 * len(inner) + 19,  # β for the gradient of the rules is gathered at once
    )


def _padded(numbers: int) -> int:
    return -(-numbers // ALIGNMENT) * ALIGNMENT


def flops(shape: StepShape) -> float:
    """Count the floating-point operations of one process in a step, forward and backward."""
    config, shards = shape.config, shape.mesh[1]
    states, tags = config.nonterminals, config.preterminals
    chart = 12 * states * (states * sum(shape.rows[:-1]) + tags * shape.own_batch * shape.length)
    softmaxes = 6 * config.embedding * (tags * shape.vocabulary + 2 * states * (states + tags))
    return (chart + softmaxes) / shards


@dataclass(frozen=True, slots=True)
class StepTime:
    """Predicted seconds of a step on H200 GPUs; nothing is computed while processes wait for each other."""

    total: float
    wait: float  # part of the total


def step_time(shape: StepShape) -> StepTime:
    """Predict the time of a step on H200 GPUs: eight in a node with NVLink, nodes with InfiniBand."""
    traffic, (data, shards) = step_traffic(shape), shape.mesh
    wait = 0.0
    if shards > 1:
        link = NVLINK if shards <= GPUS_A_NODE else INFINIBAND
        wait += traffic.over_grammar(shards) / link.bytes_a_second + traffic.collectives * link.seconds
    if data * shards > 1:
        link = NVLINK if data * shards <= GPUS_A_NODE else INFINIBAND
        wait += traffic.over_all(shape.mesh) / link.bytes_a_second + 2 * link.seconds
    return StepTime(SECONDS_A_STEP + flops(shape) / FLOPS_A_SECOND + wait, wait)


def describe_plan(config: ModelConfig, vocabulary: int, batch: int, length: int, mesh: tuple[int, int]) -> list[str]:
    """Return lines about the layout, the memory, the traffic and the time of a step of `batch` sentences.

    Raises InputError for another model than an SN-PCFG, or if its symbols do not divide evenly.
    """
    if not isinstance(config, SimpleNPCFGConfig):
        raise InputError(f"a model of kind {config.kind} cannot be planned; use an sn-pcfg")
    data, shards = mesh
    for name in ("nonterminals", "preterminals"):
        if getattr(config, name) % shards:
            raise InputError(f"model.{name} = {getattr(config, name)} cannot be divided over {shards} processes")
    shape = StepShape(config, vocabulary, batch, length, mesh)
    parts = estimate(config, vocabulary, shape.own_batch, length, "cuda", "bf16", shards=shards)
    shown = [part for part in sorted(parts, key=lambda part: -part.size)[:3] if part.size >= SMALLEST]
    largest = ", ".join(f"{part.what} {in_gib(part.size)}" for part in shown)
    traffic, time = step_traffic(shape), step_time(shape)
    received = traffic.over_grammar(shards) + traffic.over_all(mesh)
    symbols = f"{config.nonterminals // shards:,} of {config.nonterminals:,} nonterminals, "
    symbols += f"{config.preterminals // shards:,} of {config.preterminals:,} preterminals"
    sentences = batch * 86400 / time.total / 1e6
    if data * shards == 1:
        wire, waiting = "nothing, since one process trains alone", ""
    else:
        amount = "less than 0.1 MB" if received < 1e5 else f"{received / 1e6:,.1f} MB"
        wire = f"{amount} into each process a step, in {traffic.collectives} collectives"
        waited = "less than 0.1" if time.wait < 1e-4 else f"{1e3 * time.wait:,.1f}"
        waiting = f", {waited} waiting for others"
    if flops(shape) / FLOPS_A_SECOND < SECONDS_A_STEP / 10:
        waiting += ", which a smaller model or batch would take, too"
    return [
        f"layout: data {data} × grammar {shards}; each process has {shape.own_batch} of {batch} sentences, {symbols}",
        f"memory of a process: about {in_gib(sum(part.size for part in parts))} of a GPU ({largest}, …)",
        f"over the wire: {wire}",
        f"time of a step: about {1e3 * time.total:,.1f} ms on H200 GPUs{waiting}; {sentences:,.0f} M sentences a day",
    ]
