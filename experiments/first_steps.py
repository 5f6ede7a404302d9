"""What becomes of the tags that nonterminals begin with (model.dedicated_preterminals), in the first steps of training.

    python experiments/first_steps.py CONFIG --train FILE [--steps 100] [--every 20] [--set KEY=VALUE]…

The learning rate stays at its highest. Every so many steps it prints the perplexity since the last line, the share of
left productions that go to a nonterminal's own preterminals, the shares of left and right productions that go to
nonterminals, and how alike the features of left and right children are: the length of their mean beside the mean of
their lengths, 1 where all are the same.
"""

import argparse
import math
from pathlib import Path

import torch
from torch import Tensor

from simplepcfg.data.batching import collate, training_batches
from simplepcfg.errors import InputError, SimplePCFGError
from simplepcfg.models import build_model
from simplepcfg.models.simple_npcfg import SimpleNPCFG
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import prepare_corpus
from simplepcfg.runs.device import resolve_device, set_precision
from simplepcfg.training.step.distributed import Group
from simplepcfg.training.step.step import Step

SAMPLED_PARENTS = 256


def main() -> None:
    """Train a little, look, train on."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", help="of an SN-PCFG")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    try:
        if min(given.steps, given.every) < 1:
            raise InputError(f"--steps {given.steps} --every {given.every}: both must be at least 1")
        look(load_config(given.config, given.settings), given)
    except (SimplePCFGError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


def look(config: RunConfig, given: argparse.Namespace) -> None:
    """One line every so many steps."""
    corpus, settings = prepare_corpus(config.data, config.seed, given.train), config.training
    device = resolve_device(given.device)
    torch.manual_seed(config.seed)
    model = build_model(config.model, len(corpus.vocabulary)).to(device)
    if not isinstance(model, SimpleNPCFG) or model.config.tied_children or not model.config.shared_embeddings:
        raise InputError(f"{given.config} is no SN-PCFG with shared embeddings and two kinds of children; name another")
    set_precision(model, settings.precision, device)
    step = Step(model, settings, 0 if config.data.eos else 1, Group())
    batches = training_batches([len(sentence) for sentence in corpus.train], settings.batch_size, config.seed, 0)
    print("step 0:", state_of(model))
    for number, indices in enumerate(batches[: given.steps], 1):
        model.train()
        step(collate(corpus.train, indices), len(indices), settings.learning_rate)
        if number % given.every == 0:
            loss, tokens = step.counters.read()[:2]
            step.counters.reset_since_log()
            print(f"step {number}: perplexity {math.exp(loss / tokens):.0f}, {state_of(model)}", flush=True)


@torch.no_grad()
def state_of(model: SimpleNPCFG) -> str:
    """Shares, and how alike features are."""
    model.eval()
    count, tags = model.symbol_groups
    left, right = model.left_child(model.symbols), model.right_child(model.symbols)
    seen = torch.arange(min(count, SAMPLED_PARENTS), device=left.device)
    parents = model.parent(model.symbols[seen])
    to_left, to_right = (torch.softmax(parents @ children.T, 1) for children in (left, right))
    owners = torch.arange(tags, device=left.device) * count // tags
    shares = {
        "dedicated preterminals": to_left[:, count:] * (owners == seen[:, None]),
        "left nonterminals": to_left[:, :count],
        "right nonterminals": to_right[:, :count],
    }
    parts = [f"{name} {float(share.sum(1).mean()):.3f}" for name, share in shares.items()]
    parts += [
        f"{name} children alike {likeness(features):.2f}" for name, features in (("left", left), ("right", right))
    ]
    return ", ".join(parts)


def likeness(features: Tensor) -> float:
    """1 where all rows are the same."""
    return float(features.mean(0).norm() / features.norm(dim=1).mean())


if __name__ == "__main__":
    main()
