"""A whole training step of an SN-PCFG on a CPU beside the same step as one would write it with autograd.

    python benchmarks/step_cpu.py [--repeats 21] [--threads 2]

The baseline: autograd through everything, backend log_einsum_exp, log_softmax over all words and then the batch's. The
rest is the same: networks, rule softmaxes, batch, Adam. All variants take turns, so a busy machine slows them alike.
Floors: the matrix products of the step alone, in float32, each in its own shape. Appends a row to results/step_cpu.csv.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from benchmarking.report import append_rows, environment
from benchmarking.timing import Times
from measuring import measure_in_turns
from simplepcfg.grammars import DenseEmissions, SimpleGrammar
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig

RESULTS = Path(__file__).parent / "results" / "step_cpu.csv"
CPU = torch.device("cpu")


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--nonterminals", type=int, default=128, help="N")
    parser.add_argument("--preterminals", type=int, default=256, help="P")
    parser.add_argument("--words", type=int, default=10_000, help="size of the vocabulary, V")
    parser.add_argument("--batch", type=int, default=16, help="sentences")
    parser.add_argument("--length", type=int, default=20, help="words of each sentence")
    parser.add_argument("--repeats", type=int, default=21, help="steps of each variant")
    parser.add_argument("--threads", type=int, default=0, help="0 leaves the choice to torch")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="where a row is appended")
    arguments = parser.parse_args()
    for name in ("nonterminals", "preterminals", "words", "batch", "length", "repeats"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} {getattr(arguments, name)}: give 1 or more")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    generator = torch.Generator().manual_seed(0)
    # Word ids as a corpus has them: a few are frequent.
    ranks = torch.rand(arguments.batch, arguments.length, generator=generator)
    words = (arguments.words**ranks).long().clamp(1, arguments.words)
    variants = {
        "baseline": step(arguments, words, None, fused=False, loss=baseline_loss),
        "baseline_fused_adam": step(arguments, words, None, fused=True, loss=baseline_loss),
        "fp32": step(arguments, words, "fp32", fused=True),
        "fp32_plain_adam": step(arguments, words, "fp32", fused=False),
        "bf16": step(arguments, words, "bf16", fused=True),
        "products": products(arguments),
    }
    times = dict(zip(variants, measure_in_turns(list(variants.values()), arguments.repeats), strict=True))
    row = {
        **environment(CPU),
        "B": arguments.batch,
        "n": arguments.length,
        "N": arguments.nonterminals,
        "P": arguments.preterminals,
        "V": arguments.words,
    }
    for name, measured in times.items():
        row |= quantiles(f"{name}_ms", measured)
    row["fp32_speedup"] = round(times["baseline"].p50 / times["fp32"].p50, 3)
    row["fp32_speedup_same_adam"] = round(times["baseline_fused_adam"].p50 / times["fp32"].p50, 3)
    row["bf16_speedup"] = round(times["baseline"].p50 / times["bf16"].p50, 3)
    append_rows(arguments.csv, [row])
    for name, measured in times.items():
        print(f"{name:<22}{measured.p50:9.1f} ms  ({measured.p20:.1f} – {measured.p80:.1f})")
    print(
        f"over the baseline: fp32 {row['fp32_speedup']} (with the same Adam {row['fp32_speedup_same_adam']}), "
        f"bf16 {row['bf16_speedup']}"
    )


def model(arguments: argparse.Namespace) -> SimpleNPCFG:
    """The same parameters every time."""
    torch.manual_seed(0)
    config = SimpleNPCFGConfig(nonterminals=arguments.nonterminals, preterminals=arguments.preterminals)
    return SimpleNPCFG(config, arguments.words + 1)


def own_loss(network: SimpleNPCFG, words: Tensor) -> Tensor:
    """As training calls it."""
    return network.loss(words)


def baseline_loss(network: SimpleNPCFG, words: Tensor) -> Tensor:
    """The model's definition, line by line."""
    split = network.config.nonterminals
    nonterminals = network.symbols[:split]
    parents = network.parent(nonterminals)
    root = (network.root(nonterminals) @ network.start[0]).softmax(-1)
    left = (parents @ network.left_child(network.symbols).T).softmax(-1)
    right = (parents @ network.right_child(network.symbols).T).softmax(-1)
    log_emit = (network.emission(network.symbols[split:]) @ network.word_embeddings.T).log_softmax(-1)
    grammar = SimpleGrammar(root, left, right, DenseEmissions(log_emit), backend="log_einsum_exp")
    return -grammar.log_partition(words - 1)


def step(
    arguments: argparse.Namespace,
    words: Tensor,
    precision: str | None,
    fused: bool,
    loss: Callable[[SimpleNPCFG, Tensor], Tensor] = own_loss,
) -> Callable[[], None]:
    """Forward, backward and Adam."""
    network = model(arguments)
    network.precision = precision
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, betas=(0.75, 0.999), fused=fused)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(network, words).mean().backward()
        optimizer.step()

    return run


def products(arguments: argparse.Namespace) -> Callable[[], None]:
    """The float32 products of networks, rules and emissions, forward and backward: no exact step takes less."""
    states, tags, width = arguments.nonterminals, arguments.preterminals, 512
    layers = [(rows, width, width) for rows in (states, states + tags, states + tags, states, tags) for _ in range(5)]
    shapes = [*layers, *((states, width, states + tags),) * 2, (tags, width, arguments.words)]
    operands = [(torch.rand(a, b), torch.rand(c, b), torch.rand(a, c)) for a, b, c in shapes]

    def run() -> None:
        for x, weight, by_output in operands:
            torch.mm(x, weight.T)
            torch.mm(by_output, weight)
            torch.mm(by_output.T, x)

    return run


def quantiles(name: str, times: Times) -> dict[str, float]:
    """Three columns."""
    return {f"{name}_p{part}": round(getattr(times, f"p{part}"), 3) for part in (20, 50, 80)}


if __name__ == "__main__":
    main()
