"""A sentence that the grammar cannot generate has no gradient, and takes none from the others of its batch."""

import math

import pytest
import torch

from model_checks import tiny_model_of
from simplepcfg.grammars import emissions
from simplepcfg.models import MODELS
from simplepcfg.training.step.counters import StepCounters

UNSAID = 11  # a word that no preterminal emits


@pytest.fixture(autouse=True)
def _unsaid_word(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (emissions.DenseEmissions, emissions.FactoredEmissions, emissions.BatchEmissions):
        original = kind.log_probabilities

        def masked(self, words, original=original):
            return original(self, words).masked_fill((words == UNSAID)[..., None], -math.inf)

        monkeypatch.setattr(kind, "log_probabilities", masked)


@pytest.mark.parametrize("config", [config() for config in MODELS], ids=lambda config: config.kind)
def test_the_rest_of_the_batch_is_learned_from(config: object) -> None:
    model = tiny_model_of(config, 12).double()
    parameters = list(model.parameters())
    words = torch.randint(1, UNSAID, (3, 6), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([6, 6, 4])

    def gradients(batch: torch.Tensor) -> list[torch.Tensor | None]:
        torch.manual_seed(1)  # of z
        losses = model.loss(batch, lengths)
        impossible = (batch == UNSAID).any(1)
        assert torch.isposinf(losses).tolist() == impossible.tolist()
        weights = StepCounters(torch.device("cpu"), end=0).count(losses.detach(), lengths, 6, 3)
        assert weights[impossible].tolist() == [0.0] * int(impossible.sum())
        kept = torch.tensor([1.0, 0.0, 1.0], dtype=weights.dtype) * weights
        return list(torch.autograd.grad(losses, parameters, kept, allow_unused=True))

    expected = gradients(words)  # without the second sentence, by its weight
    words[1, 2] = UNSAID
    found = gradients(words)
    assert any(gradient is not None and bool(gradient.any()) for gradient in found)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
