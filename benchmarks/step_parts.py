"""What a training step of an SN-PCFG does beside the inside algorithm, part by part on a GPU, each as a CUDA graph.

    python benchmarks/step_parts.py [--sizes 4096,8192] [--parts networks,rules] [--precision bf16]

Needs torch, triton, pydantic, nltk, safetensors and tomli_w (PYTHONPATH=src where the package is not installed).
P = 2N, D = 512; forward, then forward and backward together; the update with its norm, clipping and counts;
the whole step. The floor is the larger of the flops at --tflops and the bytes that must move at --tbytes. The last four
options change how the work is cut, to find what suits a GPU. Appends to results/step_parts.csv.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarking.report import append_rows, environment
from benchmarking.sizes import Size
from benchmarking.timing import Times, captured, measure
from floors import BF16, FP32, TBYTES, TFLOPS, StepSize, Work, adam
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.ops.neural import (
    emission_log_probabilities,
    residual_networks,
    rule_probabilities,
    rules,
    softmax,
)
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.counters import StepCounters
from simplepcfg.training.step.step import BatchGradient
from simplepcfg.training.step.update import DeviceUpdate, Gradients, learning_rate_groups

RESULTS = Path(__file__).parent / "results" / "step_parts.csv"
DEVICE = torch.device("cuda")
PARTS = ("networks", "rules", "emissions", "adam", "step")
WIDTH = 512


@dataclass(frozen=True)
class Part:
    """What runs, and the flops and bytes that it cannot do without."""

    part: str
    direction: str
    run: Callable[[], object]
    work: Work


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="4096,8192", help="values of N, separated by commas")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--precision", default="bf16", choices=["bf16", "tf32", "fp32"])
    parser.add_argument("--words", type=int, default=10_000, help="size of the vocabulary, V")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--init-logit-std", type=float, default=0.0, help="of the model; 0: Xavier's initialisation")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--tflops", type=float, default=TFLOPS)
    parser.add_argument("--tbytes", type=float, default=TBYTES)
    parser.add_argument("--commit", help="what was measured, where the tree has no history")
    parser.add_argument("--csv", type=Path, default=RESULTS)
    parser.add_argument("--score-mb", type=int, default=softmax.LOGIT_BYTES >> 20, help="of rows of over 8,192 symbols")
    parser.add_argument("--gradient-mb", type=int, default=rules.GRADIENT_BYTES >> 20)
    parser.add_argument("--held-forward", type=int, default=softmax.LONGEST_HELD["forward"])
    parser.add_argument("--held-backward", type=int, default=softmax.LONGEST_HELD["backward"])
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no CUDA GPU here")
    softmax.LOGIT_BYTES, rules.GRADIENT_BYTES = arguments.score_mb << 20, arguments.gradient_mb << 20
    softmax.LONGEST_HELD = {"forward": arguments.held_forward, "backward": arguments.held_backward}
    where = environment(DEVICE, arguments.commit)
    parts = arguments.parts.split(",")
    for states in map(int, arguments.sizes.split(",")):
        print(f"N = {states}, P = {2 * states}, V = {arguments.words}, D = {WIDTH}, {arguments.precision}", flush=True)
        print(f"{'part':<12}{'direction':<20}{'ms':>9}  {'p20 – p80':<18}{'floor ms':>10}{'× floor':>9}")
        total = 0.0
        for part in all_parts(arguments, states):
            if part.part not in parts:
                continue
            measured, failure = attempt(part, arguments.repeats)
            floor = part.work.floor_ms(arguments.tflops, arguments.tbytes)
            append_rows(arguments.csv, [row(where, arguments, states, part, measured, floor, failure)])
            if measured is None:
                print(f"{part.part:<12}{part.direction:<20}{failure}", flush=True)
                continue
            if part.direction != "forward" and part.part != "step":
                total += measured.p50
            times = f"{measured.p50:9.3f}  {f'{measured.p20:.3f} – {measured.p80:.3f}':<18}"
            print(f"{part.part:<12}{part.direction:<20}{times}{floor:10.3f}{measured.p50 / floor:9.2f}", flush=True)
        print(f"{'sum of parts':<32}{total:9.3f}\n", flush=True)


def attempt(part: Part, repeats: int) -> tuple[Times | None, str]:
    """Times of the captured part, or the name of what went wrong."""
    try:
        return measure(captured(part.run), DEVICE, repeats, 2.0), ""
    except Exception as error:  # one part's failure leaves the others to be measured
        return None, f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"


def row(
    where: dict[str, object],
    arguments: argparse.Namespace,
    states: int,
    part: Part,
    times: Times | None,
    floor: float,
    failure: str,
) -> dict[str, object]:
    """Of the CSV file."""
    names = ("batch", "length", "words", "precision", "init_logit_std")
    names += ("score_mb", "gradient_mb", "held_forward", "held_backward")
    ms = (times.p20, times.p50, times.p80) if times else (None, None, None)
    return {
        **where,
        "part": part.part,
        "direction": part.direction,
        "N": states,
        "P": 2 * states,
        "D": WIDTH,
        **{name: getattr(arguments, name) for name in names},
        "overlap": 0,  # earlier rows were also measured on several streams: 1
        **{f"ms_p{q}": value and round(value, 4) for q, value in zip((20, 50, 80), ms, strict=True)},
        "floor_ms": round(floor, 4),
        "ratio": times and round(times.p50 / floor, 3),
        "failure": failure,
    }


def all_parts(arguments: argparse.Namespace, states: int) -> list[Part]:
    """Every part at this size."""
    precision = arguments.precision
    tags, symbols, count = 2 * states, 3 * states, arguments.words
    inside = Size(arguments.batch, arguments.length, states, tags)
    config = SimpleNPCFGConfig(
        nonterminals=states, preterminals=tags, embedding=WIDTH, init_logit_std=arguments.init_logit_std
    )
    size = StepSize(inside, WIDTH, count, config.emission_blocks, BF16 if precision == "bf16" else FP32)
    torch.manual_seed(0)
    model = SimpleNPCFG(config, count + 1).to(DEVICE)
    model.precision = precision
    model.train()
    networks = (model.parent, model.left_child, model.right_child, model.emission)
    rows = ((0, states), (0, symbols), (0, symbols), (states, symbols))
    weights = [network.weights() for network in networks]
    leaves = [model.symbols, *(tensor for each in weights for tensor in each)]

    def run_networks() -> tuple[Tensor, ...]:
        return residual_networks(model.symbols, rows, weights, precision=precision)

    parents, left, right, features = (tensor.detach().requires_grad_() for tensor in run_networks())
    words = torch.randint(0, count, (arguments.batch, arguments.length), device=DEVICE)

    def run_rules() -> tuple[Tensor, ...]:
        return rule_probabilities(parents, left, right, precision=precision)

    def run_emissions() -> tuple[Tensor, ...]:
        return (emission_log_probabilities(features, model.word_embeddings, words, precision=precision),)

    parts = []
    for part, run, inputs in (
        ("networks", run_networks, leaves),
        ("rules", run_rules, [parents, left, right]),
        ("emissions", run_emissions, [features, model.word_embeddings]),
    ):
        parts.append(Part(part, "forward", run, size.forward()[part]))
        parts.append(Part(part, "forward + backward", forward_backward(run, inputs), size.both()[part]))
    settings = TrainingConfig(learning_rate=1e-4)
    gradients, counters = Gradients(list(model.parameters()), flat=True), StepCounters(DEVICE, 0)
    gradient = BatchGradient(model, gradients, counters)
    update = DeviceUpdate(settings, learning_rate_groups(model, 1.0), gradients, counters)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    parts.append(Part("adam", "step", lambda: update(1e-4), adam(parameters)))
    ids = words + 1
    gradient(ids, None, len(ids))  # so that the update has something to count, and moves weights

    def step() -> None:
        gradient(ids, None, len(ids))
        update(1e-4)

    parts.append(Part("step", "whole", step, size.step()))
    return parts


def forward_backward(run: Callable[[], tuple[Tensor, ...]], inputs: list[Tensor]) -> Callable[[], object]:
    """Outputs and the gradients by all inputs; what flows in is made once."""
    with torch.no_grad():
        grads = [torch.randn_like(output) for output in run()]
    return lambda: torch.autograd.grad(run(), inputs, grads)


if __name__ == "__main__":
    main()
