"""State dropout: the symbols and features of each step, drawn from the seed and the step number alone.

A resumed run therefore repeats the draws of an uninterrupted one.
"""

from typing import Any

import torch
from torch import Tensor

from simplepcfg.data.batching import pinned
from simplepcfg.errors import InputError
from simplepcfg.models.step_dropout import StepDropout
from simplepcfg.runs.config.schema import TrainingConfig

# Large groups keep a multiple of this many symbols, since tensor cores multiply such matrices fastest.
ALIGNMENT = 64
KERNEL_ALIGNMENT = 8  # for the kernel features of an LHMM, of which there are few
SEED_STRIDE, SHARD_STRIDE = 1_000_003, 7_368_787
DROPOUTS = ("state_dropout", "embedding_dropout", "feature_dropout", "logit_dropout")
# Keys that only some models support: the key, the attribute of such a model, and what it is called in messages.
NEEDED = (
    ("feature_dropout", "kernel_features", "kernel features"),
    ("logit_dropout", "drops_logits", "factors of transitions whose logits could be left out"),
)


def check_sharded_settings(settings: TrainingConfig) -> None:
    """Raise InputError for settings that a grammar which is sharded over processes does not support."""
    refused = {name: getattr(settings, name) for name in (*DROPOUTS[1:], "check_identity")}
    if settings.teacher and settings.teacher_form == "targets":
        refused["teacher_form"] = settings.teacher_form
    for name, value in refused.items():
        if value:
            raise InputError(
                f"training.{name} = {str(value).lower()} needs the whole grammar in each process; leave it out, or set "
                "training.mesh to [processes, 1]"
            )


class StateDropout:
    """Draws the symbols and features that a model keeps in each step; processes with the same symbols draw the same.

    Of a sharded model every process keeps equally many of its own symbols. Raises InputError if the model cannot leave
    out what `settings` asks for.
    """

    def __init__(self, model: Any, settings: TrainingConfig, seed: int) -> None:
        shards = getattr(model, "shards", None)
        self._seed = seed + (0 if shards is None else SHARD_STRIDE * shards.rank)
        self._groups: tuple[int, ...] = ()
        self._counts: tuple[int, ...] = ()
        self._drawn: Tensor | None = None
        shares = {name: getattr(settings, name) for name in DROPOUTS}
        used = {name: share for name, share in shares.items() if share}
        if not used:
            return
        if not (hasattr(model, "step_dropout") and hasattr(model, "symbol_groups")):
            name, share = next(iter(used.items()))
            kind = model.config.kind
            raise InputError(f"training.{name} = {share}: a model of kind {kind} leaves nothing out; set it to 0")
        if settings.state_dropout and not getattr(model.config, "shared_embeddings", True):
            raise InputError(
                f"training.state_dropout = {settings.state_dropout} with model.shared_embeddings = false; a symbol "
                "that is left out must have one embedding, set one of them to its default"
            )
        for name, attribute, what in NEEDED:
            if name in used and not hasattr(model, attribute):
                raise InputError(
                    f"training.{name} = {used[name]}: a model of kind {model.config.kind} has no {what}; set it to 0"
                )
        symbols: tuple[int, ...] = model.symbol_groups
        counts = tuple(kept_count(size, settings.state_dropout) for size in symbols)
        self._dedicated = bool(getattr(model.config, "dedicated_preterminals", 0.0)) and symbols[1] % symbols[0] == 0
        if self._dedicated:
            counts = (counts[0], counts[0] * (symbols[1] // symbols[0]))
        if settings.state_dropout:
            self._groups, self._counts = symbols, counts
        if settings.feature_dropout:
            features = model.kernel_features
            self._groups += (features,)
            self._counts += (kept_count(features, settings.feature_dropout, KERNEL_ALIGNMENT),)
        kept = kernel_rows = None
        if self._groups:
            self._drawn = torch.zeros(sum(self._counts), dtype=torch.int64, device=model.symbols.device)
            parts = self._drawn.split(self._counts)
            kept = self._drawn[: sum(counts)] if settings.state_dropout else None
            kernel_rows = parts[-1] if settings.feature_dropout else None
        # Rows of features are drawn after those of symbols but numbered from 0.
        self._first_feature = sum(self._groups[:-1]) if settings.feature_dropout else None
        model.step_dropout = StepDropout(counts, kept, settings.embedding_dropout, kernel_rows, settings.logit_dropout)

    def draw(self, step: int) -> None:
        """Draw the symbols and features of the step with this number, counted from 0."""
        if self._drawn is None:
            return
        seed = (self._seed * SEED_STRIDE + step) % 2**63
        draw = draw_with_dedicated_preterminals if self._dedicated else draw_rows
        drawn = draw(self._groups, self._counts, seed)
        if self._first_feature is not None:
            drawn[-self._counts[-1] :] -= self._first_feature
        # Captured steps read from this address, so the tensor is overwritten in place.
        self._drawn.copy_(pinned(drawn, self._drawn.device), non_blocking=True)


def kept_count(size: int, share: float, alignment: int = ALIGNMENT) -> int:
    """Return how many of `size` symbols are kept when about this share is dropped: at least one."""
    kept = max(1, size - round(size * share))
    return min(size, -(-kept // alignment) * alignment) if size >= 4 * alignment else kept


def draw_rows(groups: tuple[int, ...], counts: tuple[int, ...], seed: int) -> Tensor:
    """Draw `counts[k]` rows of each group k, in ascending order, from a table that holds the groups one after another.

    `groups` are the numbers of rows of the groups. Returns the row numbers as one tensor.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn, first = [], 0
    for size, count in zip(groups, counts, strict=True):
        drawn.append(first + torch.randperm(size, generator=generator)[:count].sort().values)
        first += size
    return torch.cat(drawn)


def draw_with_dedicated_preterminals(groups: tuple[int, ...], counts: tuple[int, ...], seed: int) -> Tensor:
    """Draw nonterminals as `draw_rows` does, and keep the dedicated preterminals of those that are drawn.

    A nonterminal whose dedicated preterminals are dropped would hardly generate any words.
    """
    (nonterminals, preterminals), (kept, _) = groups, counts
    each = preterminals // nonterminals
    drawn = draw_rows((nonterminals,), (kept,), seed)
    dedicated = nonterminals + (drawn[:, None] * each + torch.arange(each)).flatten()
    return torch.cat([drawn, dedicated])
