"""Which symbols take part in each step: drawn from the seed and the step alone, so that a resumed run repeats it."""

from typing import Any

import torch
from torch import Tensor

from simplepcfg.data.batching import pinned
from simplepcfg.errors import InputError
from simplepcfg.models.thinning import Thinning
from simplepcfg.training.config import TrainingConfig

# Large groups keep a multiple of this many symbols: tensor cores multiply such matrices best.
ALIGNMENT = 64
SEED_STRIDE = 1_000_003


class StateDropout:
    """Tells a model before every step what to leave out; all processes of a group draw the same."""

    def __init__(self, model: Any, settings: TrainingConfig, seed: int) -> None:
        self._seed = seed
        self._groups: tuple[int, ...] = ()
        self._kept: Tensor | None = None
        shares = {name: getattr(settings, name) for name in ("state_dropout", "embedding_dropout")}
        used = {name: share for name, share in shares.items() if share}
        if not used:
            return
        if not hasattr(model, "thinning"):
            name, share = next(iter(used.items()))
            kind = model.config.kind
            raise InputError(f"training.{name} = {share}: a model of kind {kind} leaves nothing out; set it to 0")
        if settings.state_dropout and not getattr(model.config, "shared_embeddings", True):
            raise InputError(
                f"training.state_dropout = {settings.state_dropout} with model.shared_embeddings = false; a symbol "
                "that is left out must have one embedding, set one of them to its default"
            )
        self._groups = model.symbol_groups
        self._counts = tuple(kept_count(size, settings.state_dropout) for size in self._groups)
        if settings.state_dropout:
            self._kept = torch.zeros(sum(self._counts), dtype=torch.int64, device=model.symbols.device)
        model.thinning = Thinning(self._counts, self._kept, settings.embedding_dropout)

    def draw(self, step: int) -> None:
        """Choose the symbols of the step with this number, counted from 0."""
        if self._kept is None:
            return
        drawn = draw_rows(self._groups, self._counts, (self._seed * SEED_STRIDE + step) % 2**63)
        # In place, since captured steps read from there.
        self._kept.copy_(pinned(drawn, self._kept.device), non_blocking=True)


def kept_count(size: int, share: float) -> int:
    """How many of `size` symbols stay when about this share of them goes: at least one."""
    kept = max(1, size - round(size * share))
    return min(size, -(-kept // ALIGNMENT) * ALIGNMENT) if size >= 4 * ALIGNMENT else kept


def draw_rows(groups: tuple[int, ...], counts: tuple[int, ...], seed: int) -> Tensor:
    """Rows of a table in which the groups lie one behind the other, `counts` of each, in order."""
    generator = torch.Generator().manual_seed(seed)
    drawn, first = [], 0
    for size, count in zip(groups, counts, strict=True):
        drawn.append(first + torch.randperm(size, generator=generator)[:count].sort().values)
        first += size
    return torch.cat(drawn)
