"""Warm start: initialise a model with the weights of another run, of the same size or with fewer symbols.

Symbols of a smaller model are split into equal copies.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.runs.run_folder import load_run
from simplepcfg.runs.tensor_files import load_weights

# Keys of a model that may differ between the two runs: sizes that may grow, and those of the random initialisation,
# which the loaded weights replace.
GROWING = ("nonterminals", "preterminals", "states")
INITIAL = ("init_logit_std", "init_emission_logit_std", "dedicated_preterminals")


def initialise_from_run(model: nn.Module, vocabulary: Vocabulary, directory: str | Path, noise: float) -> None:
    """Load the best weights of the run in `directory` into `model`, splitting its symbols if `model` has more.

    If `model` has m times as many symbols, each becomes m copies that share its probability evenly, so that the larger
    grammar equals the smaller one but for `noise`. `noise` is the standard deviation of what is added to the copies'
    embeddings, relative to that of the embeddings; training needs it to tell the copies of a symbol from each other.

    Raises InputError if the vocabulary or another key of the models differs.
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
            # Tables of symbols have one row a symbol, those of the root one a nonterminal; all grow by the same factor.
            if name == "symbols" or (name in weights and weights[name].shape[:1] != table.shape[:1]):
                weights[name] = split_symbols(weights[name], *sizes, noise, str(directory))  # type: ignore[arg-type]
    load_weights(model, weights, Path(directory))


def split_symbols(table: Tensor, before: tuple[int, ...], after: tuple[int, ...], noise: float, name: str) -> Tensor:
    """Repeat every row of `table` m times, where sizes `after` are m times `before`, and add noise if m > 1.

    Copies of a symbol are adjacent. Raises InputError, with the run's `name`, if the sizes are no such multiples.
    """
    times = after[0] // before[0]
    if times < 1 or after != tuple(times * size for size in before):
        old, new = (" and ".join(map(str, sizes)) for sizes in (before, after))
        raise InputError(
            f"training.start_from = {name}: its {old} symbols cannot become {new}; multiply all by the same number"
        )
    copies = table.repeat_interleave(times, 0)
    return copies + torch.randn_like(copies) * (noise * table.std()) if times > 1 else copies
