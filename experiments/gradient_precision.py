"""Compare the gradients of one training in bf16, TF32 and float32, on the same weights and batches.

    python experiments/gradient_precision.py CONFIG --train FILE [--at 0,100,1000] [--precision bf16] [--set KEY=VALUE]…

Training itself computes in `--precision`. At each of the given steps the next batch's gradient is computed in every
precision from the same weights. For each group of weights the script prints the relative error against float32,
‖g − g32‖ / ‖g32‖, and the cosine of the two gradients.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from simplepcfg.data.batching import collate, training_batches
from simplepcfg.errors import InputError, SimplePCFGError
from simplepcfg.models import Model, build_model
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import prepare_corpus
from simplepcfg.runs.device import resolve_device, set_precision
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.step import Step

PRECISIONS = ("fp32", "tf32", "bf16")


def main() -> None:
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", help="configuration of a model that can choose its precision")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--at", default="0,100,300,1000,2500", help="steps after which gradients are compared")
    parser.add_argument("--precision", default="bf16", choices=PRECISIONS, help="of the training itself")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    try:
        compare(load_config(given.config, given.settings), given)
    except (SimplePCFGError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


def compare(config: RunConfig, given: argparse.Namespace) -> None:
    """Train, and print the comparison at every step of `given.at`."""
    corpus, settings = prepare_corpus(config.data, config.seed, given.train), config.training
    device = resolve_device(given.device)
    torch.manual_seed(config.seed)
    model = build_model(config.model, len(corpus.vocabulary)).to(device)
    set_precision(model, given.precision, device)
    step = Step(model, settings, 0 if config.data.eos else 1, Group())
    lengths = [len(sentence) for sentence in corpus.train]
    marks = {int(part) for part in given.at.split(",")}
    number, epoch = 0, 0
    while number <= max(marks):
        batches = training_batches(lengths, settings.batch_size, config.seed, epoch)
        if not batches:
            raise InputError(f"{given.train}: no sentences to train on; give text with some of two words or more")
        for indices in batches:
            batch = collate(corpus.train, indices)
            if number in marks:
                words, sizes = batch.words.to(device), batch.lengths
                gradients = {name: gradient(model, name, words, sizes) for name in PRECISIONS}
                set_precision(model, given.precision, device)
                for name in PRECISIONS[1:]:
                    print(f"step {number}, {name}: {differences(gradients[name], gradients['fp32'])}", flush=True)
            if number > max(marks):
                return
            model.train()
            step(batch, len(indices), settings.learning_rate)
            number += 1
        epoch += 1


def gradient(model: Model, precision: str, words: Tensor, lengths: Tensor) -> dict[str, Tensor]:
    """Return the gradient of the mean loss by each weight, computed in this precision."""
    set_precision(model, precision, words.device)
    model.train()
    parameters = dict(model.named_parameters())
    grads = torch.autograd.grad(model.loss(words, lengths).mean(), list(parameters.values()))
    return {name: grad.float() for name, grad in zip(parameters, grads, strict=True)}


def differences(gradients: dict[str, Tensor], exact: dict[str, Tensor]) -> str:
    """Describe how far the gradients of each group of weights are from the exact ones."""
    groups: dict[str, list[str]] = {}
    for name in exact:
        groups.setdefault(name.partition(".")[0], []).append(name)
    parts = []
    for group, names in groups.items():
        here, there = (torch.cat([part[name].flatten() for name in names]) for part in (gradients, exact))
        error = float((here - there).norm() / there.norm())
        cosine = float(torch.dot(here, there) / (here.norm() * there.norm()))
        parts.append(f"{group} {error:.4f} ({cosine:.5f})")
    return ", ".join(parts)


if __name__ == "__main__":
    main()
