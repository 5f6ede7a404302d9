"""A running average of the weights, which is often better than the last of them and never as jumpy."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from simplepcfg.errors import InputError

# Early on the average keeps step / (step + 9) of itself, so that it does not remember the first random weights.
START = 9


class WeightAverage:
    """Of a model's trained parameters; with a decay of 0 there is none, and the model's own weights stand for it."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model, self._decay = model, decay
        trained = ((name, weight) for name, weight in model.named_parameters() if weight.requires_grad)
        self._own = dict(trained) if decay else {}
        self._mean = {name: weight.detach().clone() for name, weight in self._own.items()}

    @property
    def means(self) -> dict[nn.Parameter, Tensor]:
        """The average of each parameter; none where there is no average."""
        return {own: self._mean[name] for name, own in self._own.items()}

    def share(self, step: int) -> float:
        """Of the weights after the step with this number, counted from 0, in the average."""
        return 1 - min(self._decay, step / (step + START))

    @torch.no_grad()
    def follow(self, share: float) -> None:
        """Take in the weights of now."""
        if self._mean:
            torch._foreach_lerp_(list(self._mean.values()), list(self._own.values()), share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model has the average for weights; at the same addresses, which captured steps know."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def weights(self) -> dict[str, Tensor]:
        """What is to be kept as the model: its state with the average in it."""
        return self._model.state_dict() | self._mean

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds of it."""
        return dict(self._mean)

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor], path: Path) -> None:
        """Go on from a checkpoint, after the model's weights have been restored."""
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
