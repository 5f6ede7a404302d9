"""Exponential moving average (EMA) of a model's weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from simplepcfg.errors import InputError

# The decay of early steps is step / (step + 9), so that the average forgets the random initial weights quickly.
WARMUP = 9


class WeightEMA:
    """Exponential moving average of a model's trained parameters.

    With a decay of 0 nothing is averaged, and every method uses the model's own weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model, self._decay = model, decay
        trained = ((name, weight) for name, weight in model.named_parameters() if weight.requires_grad)
        self._own = dict(trained) if decay else {}
        self._mean = {name: weight.detach().clone() for name, weight in self._own.items()}

    def weight_at(self, step: int) -> float:
        """Return the weight, 1 − decay, of the parameters after the step with this number, counted from 0."""
        return 1 - min(self._decay, step / (step + WARMUP))

    @torch.no_grad()
    def update(self, weight: float) -> None:
        """Move the average towards the present parameters by the share `weight`."""
        if self._mean:
            torch._foreach_lerp_(list(self._mean.values()), list(self._own.values()), weight)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Give the model the averaged weights inside the context, at the addresses that captured steps know."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def weights(self) -> dict[str, Tensor]:
        """Return the model's state dict with the averaged weights in it: what is saved as the model."""
        return self._model.state_dict() | self._mean

    def state(self) -> dict[str, Tensor]:
        """Return the averages by parameter name, for a checkpoint."""
        return dict(self._mean)

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor], path: Path) -> None:
        """Restore the averages of a checkpoint, after the model's weights have been restored.

        Raises InputError, which names `path`, if they are not of this model.
        """
        if state.keys() != self._mean.keys():
            raise InputError(f"{path}: its average of the weights is not of this model; start a new run")
        for name, mean in self._mean.items():
            mean.copy_(state[name])

    @torch.no_grad()
    def _swap(self) -> None:
        for name, mean in self._mean.items():
            own = self._own[name]
            kept = own.clone()
            own.copy_(mean)
            mean.copy_(kept)
