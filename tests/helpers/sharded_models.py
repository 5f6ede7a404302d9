"""Small models whole and sharded, and what differs between them: for processes, threads and GPUs."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from simplepcfg.models import SimpleCPCFG, SimpleCPCFGConfig, SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.models.sharding import shard_model
from simplepcfg.models.step_dropout import StepDropout
from simplepcfg.ops.shards import Shards
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.training.step.state_dropout import StateDropout

WORDS = 13
SIZES = {"nonterminals": 8, "preterminals": 12, "embedding": 16}
MODELS = {
    "sn-pcfg": (SimpleNPCFG, SimpleNPCFGConfig(**SIZES, init_logit_std=1.0)),
    "paper": (SimpleNPCFG, SimpleNPCFGConfig(**SIZES, networks="paper", shared_embeddings=False, rms_norm=True)),
    "dropout": (SimpleNPCFG, SimpleNPCFGConfig(**SIZES, init_logit_std=1.0)),
    "peaked": (SimpleNPCFG, SimpleNPCFGConfig(**SIZES, init_logit_std=12.0, tied_children=True)),
    "sc-pcfg": (SimpleCPCFG, SimpleCPCFGConfig(**SIZES, latent=4, encoder=8)),
}
LENGTHS = ([6, 6, 6], [2, 5, 6, 1])


def sentences(lengths: list[int]) -> tuple[Tensor, Tensor]:
    """Return random words [B, n] and their lengths."""
    random = torch.Generator().manual_seed(len(lengths))
    words = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    for row, length in zip(words, lengths, strict=True):
        row[:length] = torch.randint(1, WORDS, (length,), generator=random)
    return words, torch.tensor(lengths)


def whole_and_sharded(name: str, shards: Shards, dtype: torch.dtype, device: str = "cpu", precision: str | None = None):
    """Return a model, the same with its symbols sharded, and the groups of rows of the sharded parameters."""
    torch.manual_seed(0)
    kind, config = MODELS[name]
    whole = kind(config, WORDS).to(device, dtype)
    sharded = copy.deepcopy(whole)
    tables = shard_model(sharded, shards)
    whole.precision = sharded.precision = precision
    if name == "dropout":
        leave_symbols_out(whole, sharded, shards)
    return whole.train(), sharded.train(), tables


def leave_symbols_out(whole: SimpleNPCFG, sharded: SimpleNPCFG, shards: Shards) -> None:
    """Let state dropout of the whole model keep what the processes keep of theirs."""
    states, tags = whole.symbol_groups
    own = []
    for rank in range(shards.size):
        sharded.shards = Shards(shards.group, rank, shards.size)
        dropout = StateDropout(sharded, TrainingConfig(state_dropout=0.4), seed=3)
        dropout.draw(step=5)
        counts, kept = sharded.step_dropout.counts, sharded.step_dropout.kept.split(sharded.step_dropout.counts)
        first = (rank * states // shards.size, states + rank * tags // shards.size - states // shards.size)
        own.append([rows + start for rows, start in zip(kept, first, strict=True)])
        if rank == shards.rank:
            mine = sharded.step_dropout
    sharded.shards, sharded.step_dropout = shards, mine
    kept_rows = torch.cat([rows for group in zip(*own, strict=True) for rows in group])
    whole.step_dropout = StepDropout(tuple(shards.size * count for count in counts), kept_rows)


def differences(
    name: str,
    shards: Shards,
    dtype: torch.dtype,
    lengths: list[int],
    device: str = "cpu",
    backend: str = "auto",
    precision: str | None = None,
) -> tuple[float, float, float]:
    """Return the largest differences of losses, relative gradients and span marginals between whole and sharded."""
    whole, sharded, tables = whole_and_sharded(name, shards, dtype, device, precision)
    words, sizes = sentences(lengths)
    words = words.to(device)
    bonus = torch.rand(len(words), words.shape[1] + 1, words.shape[1] + 1, generator=torch.Generator().manual_seed(1))
    losses, marginals = [], []
    for model in (whole, sharded):
        torch.manual_seed(5)
        weights = bonus.to(device, dtype)
        if backend == "auto":
            loss = model.loss(words, sizes, span_bonus=weights)
        else:
            grammar = replace(model.grammar(words, sizes), backend=backend if model is sharded else "auto")
            loss = -grammar.log_partition(words, sizes, span_bonus=weights)
        possible = loss != torch.inf
        weights = torch.arange(1.0, len(words) + 1, dtype=dtype, device=device)[possible] / len(words)
        (loss[possible] * weights).sum().backward()
        losses.append(loss.detach()[possible])
        with torch.no_grad():
            grammar = model.grammar(words, sizes)
            grammar = replace(grammar, backend=backend) if model is sharded else grammar
            marginals.append(grammar.span_marginals(words, sizes))
            if backend == "auto" and dtype == torch.float64:
                expected = whole.grammar(words, sizes).decode(words, sizes, exact=True)
                assert grammar.decode(words, sizes, exact=True) == expected
    worst = 0.0
    for parameter_name, one in whole.named_parameters():
        other = sharded.get_parameter(parameter_name)
        gradient = torch.zeros_like(other) if other.grad is None else other.grad
        wanted = torch.zeros_like(one) if one.grad is None else one.grad
        if parameter_name in tables:
            wanted = shards.own(wanted, tables[parameter_name])
        else:
            shards.sum_(gradient)
        worst = max(worst, float((gradient - wanted).abs().max() / max(1.0, float(wanted.abs().max()))))
    return (
        float((losses[0] - losses[1]).abs().max()),
        worst,
        float((marginals[0] - marginals[1]).abs().max()),
    )


def gpu_process(rank: int, port: int, folder: str) -> None:
    """Compare whole and sharded models by one of two processes on the same GPU, with gloo, and write what differs."""
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.backends.cudnn.allow_tf32 = False  # the compound model's LSTM would otherwise round to ten bits
    shards = Shards.of(dist.group.WORLD)
    worst = {}
    for name in ("sn-pcfg", "peaked", "sc-pcfg"):
        for dtype, precision in ((torch.float64, None), (torch.float32, None), (torch.float32, "bf16")):
            for lengths in LENGTHS:
                case = f"{name} {lengths} {dtype} {precision}"
                worst[case] = differences(name, shards, dtype, lengths, "cuda", precision=precision)
    Path(folder, f"worst-{rank}").write_text(json.dumps(worst))
    dist.destroy_process_group()
