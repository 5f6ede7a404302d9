"""Models whose symbols are sharded over processes: which parameters are, and their rows in each process."""

import torch
from torch import nn

from simplepcfg.errors import InputError
from simplepcfg.models.simple_cpcfg import SimpleCPCFG
from simplepcfg.models.simple_npcfg import SimpleNPCFG
from simplepcfg.ops.shards import Shards

Groups = tuple[int, ...]


def row_groups(model: nn.Module) -> dict[str, Groups]:
    """Return the parameters that have a row for each symbol, by name, with the sizes of their groups of rows.

    Of every group each process has an equal part. Raises InputError for a model that cannot be sharded.
    """
    if not isinstance(model, SimpleNPCFG | SimpleCPCFG):
        kind = getattr(getattr(model, "config", None), "kind", type(model).__name__)
        raise InputError(f"a model of kind {kind} cannot be sharded; use sn-pcfg or sc-pcfg, or data parallelism alone")
    states, tags = model.config.nonterminals, model.config.preterminals
    groups: Groups = (states, tags)
    if isinstance(model, SimpleNPCFG) and not model.config.shared_embeddings:  # as parent, as children, as preterminal
        groups = (states, *groups * (1 if model.config.tied_children else 2), tags)
    tables = {"symbols": groups}
    if model.config.networks == "paper":
        tables["root_embeddings"] = (states,)
    return tables


@torch.no_grad()
def shard_model(model: nn.Module, shards: Shards) -> dict[str, Groups]:
    """Leave this process its rows of the sharded parameters; return `row_groups`, the sizes before.

    Raises InputError if the model cannot be sharded or its symbols do not divide evenly.
    """
    tables = row_groups(model)
    assert isinstance(model, SimpleNPCFG | SimpleCPCFG)
    for name in ("nonterminals", "preterminals"):
        if getattr(model.config, name) % shards.size:
            raise InputError(
                f"model.{name} = {getattr(model.config, name)} cannot be divided over {shards.size} processes; make it "
                f"a multiple of {shards.size}"
            )
    for name, groups in tables.items():
        setattr(model, name, nn.Parameter(shards.own(getattr(model, name), groups)))
    model.shards = shards
    return tables
