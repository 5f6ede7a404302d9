"""Plain calls of what a grammar can be asked: launched kernel by kernel, replayed from the cache, and as one graph.

    python benchmarks/plain_questions_gpu.py [--sizes "16,20,512,1024 16,40,512,1024"] [--rows viterbi,prefix]

Needs torch and triton alone (PYTHONPATH=src where the package is not installed). Appends to
results/plain_questions_gpu.csv. The third way is the least time there can be: the caller captures the call as one CUDA
graph by hand, which is not possible for calls that draw random numbers or read a result on the host. Rules and products
are in bfloat16 where there is a choice, and hidden Markov models have N states.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from measuring import FIGURES, WAYS, measure_ways
from simplepcfg.benchmarking.peak_memory import release
from simplepcfg.benchmarking.report import append_rows, check_columns, environment
from simplepcfg.benchmarking.sizes import Size
from simplepcfg.errors import is_out_of_memory
from simplepcfg.ops.arguments import Sentences, SimpleRules
from simplepcfg.ops.forward import forward
from simplepcfg.ops.graphs import clear_graphs
from simplepcfg.ops.inside import span_marginals
from simplepcfg.ops.prefix import left_corner_closure, prefix_log_probabilities
from simplepcfg.ops.sample import sample_trees
from simplepcfg.ops.viterbi import viterbi

RESULTS = Path(__file__).parent / "results" / "plain_questions_gpu.csv"
SIZES = "16,20,512,1024 16,40,512,1024 16,20,4096,8192 16,40,4096,8192"
COLUMNS = (
    *("when", "machine", "threads", "torch", "triton", "python", "commit", "question", "B", "n", "N", "P"),
    *FIGURES,
    "failure",
)
BUDGET_S = 0.25  # one timing takes about this long
Step = Callable[[], object]


@dataclass(frozen=True)
class Inputs:
    """Random rules and emissions; left and right are the halves of one buffer, as training has them."""

    log_emissions: Tensor
    root: Tensor
    left: Tensor
    right: Tensor
    generator: torch.Generator

    @classmethod
    def of(cls, size: Size, device: torch.device) -> "Inputs":
        """Rules as flat as those of a model at the start."""
        generator = torch.Generator(device).manual_seed(0)
        states = size.nonterminals
        both = torch.empty(2 * states, states + size.preterminals, device=device)
        both.uniform_(0.01, 1.0, generator=generator)
        both = both.div_(both.sum(-1, keepdim=True)).bfloat16()
        root = torch.rand(states, generator=generator, device=device) + 0.01
        emissions = torch.randn(size.batch, size.n, size.preterminals, generator=generator, device=device)
        return cls(emissions.log_softmax(-1), root / root.sum(), both[:states], both[states:], generator)

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The arguments of ``inside``."""
        return self.log_emissions, self.root, self.left, self.right

    def values(self, precision: str | None = None) -> tuple[SimpleRules, Sentences]:
        """The same as other operations take them."""
        return SimpleRules(self.root, self.left, self.right, precision), Sentences(self.log_emissions)


def marginals(inputs: Inputs) -> Step:
    """Span marginals: both passes of the inside algorithm."""
    return lambda: span_marginals(*inputs.tensors(), precision="bf16")


def best_trees(inputs: Inputs) -> Step:
    """Viterbi trees with their symbols and log-probabilities, in float32."""
    return lambda: viterbi(*inputs.values())


def sampled(inputs: Inputs) -> Step:
    """Sixteen trees of each sentence, the forward pass included."""
    return lambda: sample_trees(*inputs.values("bf16"), 16, inputs.generator)


def prefixes(inputs: Inputs) -> Step:
    """Probabilities of every prefix, given the closure of the rules, which is computed once."""
    closure = left_corner_closure(inputs.values()[0])
    return lambda: prefix_log_probabilities(*inputs.values("bf16"), closure=closure)


def hidden(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Emissions, start and transitions of a hidden Markov model with N states."""
    states = inputs.root.shape[0]
    transitions = inputs.left[:, :states].float()
    transitions = (transitions / transitions.sum(-1, keepdim=True)).bfloat16()
    return inputs.log_emissions[..., :states].contiguous(), inputs.root, transitions


def hmm_forward(inputs: Inputs) -> Step:
    """Log-probabilities of sentences under a hidden Markov model."""
    tensors = hidden(inputs)
    return lambda: forward(*tensors, precision="bf16")


def hmm_gradients(inputs: Inputs) -> Step:
    """The same and the gradients of everything."""
    leaves = [tensor.requires_grad_() for tensor in hidden(inputs)]

    def step() -> object:
        with torch.enable_grad():
            return torch.autograd.grad(forward(*leaves, precision="bf16").sum(), leaves)

    return step


# By name: what makes the call, and whether a caller can capture it as one graph.
ROWS: dict[str, tuple[Callable[[Inputs], Step], bool]] = {
    "span-marginals": (marginals, True),
    "viterbi": (best_trees, True),
    "sample-16": (sampled, False),
    "prefix": (prefixes, True),
    "hmm-forward": (hmm_forward, True),
    "hmm-gradients": (hmm_gradients, True),
}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=SIZES, help="B,n,N,P; several are separated by spaces")
    parser.add_argument("--rows", default=",".join(ROWS), help="names, separated by commas")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--commit", help="what was measured, where the tree has no history")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    names = arguments.rows.split(",")
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        parser.error(f"--rows {unknown[0]} is unknown; take some of {', '.join(ROWS)}")
    if not torch.cuda.is_available():
        parser.error("torch sees no CUDA GPU here")
    began = time.monotonic()
    check_columns(arguments.csv, COLUMNS)
    where = environment(torch.device("cuda"), arguments.commit)
    print(f"{where['machine']}, torch {where['torch']}, triton {where['triton']}, commit {where['commit']}")
    heads = ("plain", "call", "graph", "plain/call", "call/graph", "plain MB", "call MB", "graph MB")
    print(f"{'milliseconds (median), MB reserved':<42}" + "".join(f"{head:>12}" for head in heads), flush=True)
    with torch.no_grad():
        for text in arguments.sizes.split():
            size = Size.parse(text)
            for name in names:
                row = measured(name, size, arguments.repeats)
                append_rows(arguments.csv, [{**where, **row}])
                print(line(row), flush=True)
    print(f"{time.monotonic() - began:.0f} s", flush=True)


def measured(name: str, size: Size, repeats: int) -> dict[str, object]:
    """One row: times and memory of the three ways, and their ratios."""
    device = torch.device("cuda", torch.cuda.current_device())
    row: dict[str, object] = dict.fromkeys(COLUMNS[7:], "")
    row |= {"question": name, "B": size.batch, "n": size.n, "N": size.nonterminals, "P": size.preterminals}
    make, has_graph = ROWS[name]
    try:
        return row | measure_ways(make(Inputs.of(size, device)), device, repeats, BUDGET_S, has_graph)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return row | {"failure": "OOM"}
    finally:
        clear_graphs()
        release()


def line(row: dict[str, object]) -> str:
    """A line of the table."""
    size = ", ".join(str(row[name]) for name in ("B", "n", "N", "P"))
    start = f"{row['question']!s:<18}{size:<24}"
    if row["failure"]:
        return f"{start}{row['failure']!s:>12}"
    names = (*(f"{way}_ms_p50" for way in WAYS), "speedup", "over_graph")
    times = "".join(f"{row[name]:>12.3f}" if row[name] != "" else f"{'–':>12}" for name in names)
    peaks = (row[f"{way}_peak_mb"] for way in WAYS)
    return start + times + "".join(f"{peak:>12.0f}" if peak != "" else f"{'–':>12}" for peak in peaks)


if __name__ == "__main__":
    main()
