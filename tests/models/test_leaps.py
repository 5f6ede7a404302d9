"""Where training has made a model's scores absurdly large, every sentence still has a probability and a gradient."""

from dataclasses import fields, replace

import pytest
import torch

from simplepcfg.models import MODELS, build_model

TINY = {"states": 6, "nonterminals": 6, "preterminals": 8, "embedding": 8, "encoder": 8, "latent": 3, "rank": 4}


@pytest.mark.parametrize("factor", [10.0, 100.0])
@pytest.mark.parametrize("config", [config() for config in MODELS], ids=lambda config: config.kind)
def test_scores_far_apart(config: object, factor: float) -> None:
    """Most rules lie at the least probability that there is; float64 of the same weights says what is right."""
    torch.manual_seed(3)
    sizes = {field.name: TINY[field.name] for field in fields(config) if field.name in TINY}  # type: ignore[arg-type]
    model = build_model(replace(config, **sizes), 12).train()  # type: ignore[type-var]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(1.0 if name.startswith("encoder") else factor)
    words = torch.randint(1, 12, (4, 9), generator=torch.Generator().manual_seed(0))
    torch.manual_seed(1)  # of z
    loss = model.loss(words)  # type: ignore[operator]
    gradients = torch.autograd.grad(loss.sum(), list(model.parameters()), allow_unused=True)
    assert all(found is None or bool(found.isfinite().all()) for found in gradients)
    assert any(found is not None and bool(found.any()) for found in gradients)
    torch.manual_seed(1)
    exact = model.double().loss(words)  # type: ignore[operator]
    assert exact.isfinite().all()
    torch.testing.assert_close(loss.double(), exact, rtol=1e-5, atol=0.0)
