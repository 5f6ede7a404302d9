"""A run that begins with the weights of another, of the same size or of fewer symbols, each of which is then split."""

from pathlib import Path

import torch
from torch import Tensor, nn

from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.training.storage.run_folder import load_run
from simplepcfg.training.storage.tensor_files import load_weights

# Names of the sizes that may grow, and of what says how weights begin that these replace; every other key of a model
# must be the same.
GROWING = ("nonterminals", "preterminals", "states")
INITIAL = ("init_logit_std", "init_emission_logit_std", "dedicated_preterminals")


def start_from(model: nn.Module, vocabulary: Vocabulary, directory: str | Path, noise: float) -> None:
    """Give `model` the best weights of a run; a symbol of its becomes as many as there are more here.

    Copies of a symbol share its probability evenly, so the larger grammar is the smaller one but for `noise`: the
    deviation, as a share of the embeddings' own, by which the copies differ and from which they grow apart.
    """
    start = load_run(directory, device="cpu")
    if start.vocabulary.words != vocabulary.words:
        raise InputError(f"training.start_from = {directory}: its vocabulary is another; prepare both texts alike")
    old, new = start.config.model, model.config
    for key in sorted(vars(old) | vars(new)):
        before, after = getattr(old, key, None), getattr(new, key, None)
        if before != after and key not in (*GROWING, *INITIAL):
            raise InputError(
                f"training.start_from = {directory}: its model.{key} is {before}, here {after}; make them equal"
            )
    weights = start.model.state_dict()
    if hasattr(model, "symbol_groups") and getattr(new, "shared_embeddings", True):
        sizes = start.model.symbol_groups, model.symbol_groups
        for name, table in model.state_dict().items():
            # Tables of symbols have a row for each, and those of the root for each nonterminal; all grow alike.
            if name == "symbols" or (name in weights and weights[name].shape[:1] != table.shape[:1]):
                weights[name] = split_symbols(weights[name], *sizes, noise, str(directory))  # type: ignore[arg-type]
    load_weights(model, weights, Path(directory))


def split_symbols(table: Tensor, before: tuple[int, ...], after: tuple[int, ...], noise: float, name: str) -> Tensor:
    """Every row as many times as there are more symbols after; copies of a symbol lie next to each other."""
    times = after[0] // before[0]
    if times < 1 or after != tuple(times * size for size in before):
        old, new = (" and ".join(map(str, sizes)) for sizes in (before, after))
        raise InputError(
            f"training.start_from = {name}: its {old} symbols cannot become {new}; multiply all by the same number"
        )
    copies = table.repeat_interleave(times, 0)
    return copies + torch.randn_like(copies) * (noise * table.std()) if times > 1 else copies
