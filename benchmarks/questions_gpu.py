"""What else a grammar can be asked, on a GPU: time and memory beside the inside algorithm's forward pass.

    python benchmarks/questions_gpu.py [--sizes 16,40,4096,8192] [--rows viterbi,sample-16] [--repeats 20]

Needs torch and triton alone (PYTHONPATH=src where the package is not installed). Appends to results/questions_gpu.csv.
A row is a name and a function of the inputs in ROWS; one whose code is not there is left out.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarking.peak_memory import peak_on_gpu, release
from benchmarking.report import append_rows, environment
from benchmarking.sizes import Size
from benchmarking.timing import Times, measure
from simplepcfg.errors import ResourceError, is_out_of_memory
from simplepcfg.ops.arguments import Sentences, SimpleRules

RESULTS = Path(__file__).parent / "results" / "questions_gpu.csv"
YARDSTICK = "inside"
BUDGET_S = 2.0


@dataclass(frozen=True)
class Inputs:
    """Random rules and emissions; left and right are the halves of one buffer, as training has them."""

    log_emissions: Tensor
    root: Tensor
    left: Tensor
    right: Tensor
    generator: torch.Generator
    known: dict[str, Any] = field(default_factory=dict)  # what a row computes once for a grammar, not once a batch

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The arguments of ``inside``."""
        return self.log_emissions, self.root, self.left, self.right

    def values(self, precision: str | None = None) -> tuple[SimpleRules, Sentences]:
        """The same as other operations take them."""
        return SimpleRules(self.root, self.left, self.right, precision), Sentences(self.log_emissions)


def make_inputs(size: Size, device: torch.device) -> Inputs:
    """Rules as flat as those of a model at the start."""
    generator = torch.Generator(device).manual_seed(0)
    states = size.nonterminals
    both = torch.empty(2 * states, states + size.preterminals, device=device).uniform_(0.01, 1.0, generator=generator)
    both.div_(both.sum(-1, keepdim=True))
    root = torch.rand(states, generator=generator, device=device) + 0.01
    emissions = torch.randn(size.batch, size.n, size.preterminals, generator=generator, device=device)
    return Inputs(emissions.log_softmax(-1), root / root.sum(), both[:states], both[states:], generator)


def inside_forward(inputs: Inputs) -> object:
    """The yardstick: log Z alone, in float32."""
    from simplepcfg.ops.inside import inside

    return inside(*inputs.tensors(), precision="fp32")


def span_marginals(inputs: Inputs) -> object:
    """Forward and backward."""
    from simplepcfg.ops.inside import span_marginals

    return span_marginals(*inputs.tensors(), precision="fp32")


def best_trees(inputs: Inputs) -> object:
    """Viterbi trees with their symbols."""
    from simplepcfg.ops.viterbi import viterbi

    return viterbi(*inputs.values())


def best_scores(inputs: Inputs) -> object:
    """The Viterbi chart without the way down."""
    from simplepcfg.ops.arguments import check_arguments
    from simplepcfg.ops.viterbi import viterbi_chart

    return viterbi_chart(check_arguments(*inputs.values()), "triton").fill()


def sampled(samples: int) -> Callable[[Inputs], object]:
    """Trees from the posterior, the forward pass included."""

    def draw(inputs: Inputs) -> object:
        from simplepcfg.ops.sample import sample_trees

        return sample_trees(*inputs.values("fp32"), samples, inputs.generator)

    return draw


def generated(inputs: Inputs) -> object:
    """A thousand derivations of the grammar itself, of at most n words."""
    from simplepcfg.ops.sample import sample_derivations

    return sample_derivations(inputs.values()[0], 1000, inputs.log_emissions.shape[1], inputs.generator)


def prefixes(inputs: Inputs) -> object:
    """Probabilities of every prefix, given the closure of the rules, which does not depend on the sentences."""
    from simplepcfg.ops.prefix import prefix_log_probabilities

    if "closure" not in inputs.known:
        inputs.known["closure"] = closure(inputs)
    return prefix_log_probabilities(*inputs.values(), closure=inputs.known["closure"])


def closure(inputs: Inputs) -> object:
    """What prefix probabilities need once a grammar."""
    from simplepcfg.ops.prefix import left_corner_closure

    return left_corner_closure(inputs.values()[0])


ROWS: dict[str, Callable[[Inputs], object]] = {
    YARDSTICK: inside_forward,
    "span-marginals": span_marginals,
    "viterbi": best_trees,
    "viterbi-chart": best_scores,
    "sample-16": sampled(16),
    "sample-1000": sampled(1000),
    "generate-1000": generated,
    "prefix": prefixes,
    "prefix-closure": closure,
}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="16,40,4096,8192", help="B,n,N,P; several are separated by spaces")
    parser.add_argument("--rows", default=",".join(ROWS), help="names, separated by commas")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--commit", help="what was measured, where the tree has no history")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    names = arguments.rows.split(",")
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        parser.error(f"--rows {unknown[0]} is unknown; take some of {', '.join(ROWS)}")
    if not torch.cuda.is_available():
        parser.error("torch sees no CUDA GPU here")
    where = environment(torch.device("cuda"), arguments.commit)
    print(f"{where['machine']}, torch {where['torch']}, triton {where['triton']}, commit {where['commit']}")
    with torch.no_grad():
        for text in arguments.sizes.split():
            measure_size(Size.parse(text), names, arguments, where)


def measure_size(size: Size, names: list[str], arguments: argparse.Namespace, where: dict[str, object]) -> None:
    """The yardstick first, then every row against it."""
    inputs = make_inputs(size, torch.device("cuda"))
    print(f"\n{size}, fp32\n{'':<18}{'ms':>9}  {'p20 – p80':<18}{'times':>7}{'peak MB':>10}{'times':>7}")
    base: tuple[Times, float] | None = None
    for name in [YARDSTICK, *(name for name in names if name != YARDSTICK)]:
        measured = measure_row(name, inputs, arguments.repeats)
        if isinstance(measured, str):
            print(f"{name:<18}{measured}", flush=True)
            continue
        base = base or measured
        times, peak = measured
        ratio, memory = times.p50 / base[0].p50, peak / base[1]
        spread = f"{times.p20:.2f} – {times.p80:.2f}"
        print(f"{name:<18}{times.p50:>9.2f}  {spread:<18}{ratio:>7.2f}{peak / 1e6:>10.0f}{memory:>7.2f}", flush=True)
        sizes = {"B": size.batch, "n": size.n, "N": size.nonterminals, "P": size.preterminals}
        numbers = {"ms_p20": times.p20, "ms_p50": times.p50, "ms_p80": times.p80, "peak_mb": peak / 1e6}
        row = {**where, "question": name, **sizes, **numbers, "ratio": ratio, "memory_ratio": memory}
        append_rows(arguments.csv, [row])


def measure_row(name: str, inputs: Inputs, repeats: int) -> tuple[Times, float] | str:
    """Time and peak memory above what the inputs take; or why there is none."""
    function = ROWS[name]
    release()
    try:
        function(inputs)  # compiles its kernels
        times = measure(lambda: function(inputs), torch.device("cuda"), repeats, BUDGET_S)
        return times, peak_on_gpu(lambda: function(inputs))
    except (ImportError, AttributeError) as error:
        return f"not there: {error}"
    except (RuntimeError, ResourceError) as error:
        if not is_out_of_memory(error):
            raise
        return "out of memory"


if __name__ == "__main__":
    main()
