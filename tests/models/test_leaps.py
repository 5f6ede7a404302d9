"""Where training has made a model's scores absurdly large, every sentence still has a probability and a gradient."""

from dataclasses import fields, replace

import pytest
import torch
from torch import nn

from simplepcfg.grammars import SimpleGrammar
from simplepcfg.models import MODELS, SimpleNPCFGConfig, TensorPCFGConfig, build_model
from simplepcfg.ops.inside import inside

TINY = {"states": 6, "nonterminals": 6, "preterminals": 8, "embedding": 8, "encoder": 8, "latent": 3, "rank": 4}


def leapt(config: object, factor: float) -> nn.Module:
    torch.manual_seed(3)
    sizes = {field.name: TINY[field.name] for field in fields(config) if field.name in TINY}  # type: ignore[arg-type]
    model = build_model(replace(config, **sizes), 12).train()  # type: ignore[type-var]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(1.0 if name.startswith("encoder") else factor)
    return model


@pytest.mark.parametrize("factor", [10.0, 100.0])
@pytest.mark.parametrize("config", [config() for config in MODELS], ids=lambda config: config.kind)
def test_scores_far_apart(config: object, factor: float) -> None:
    """Most rules lie at the least probability that there is; float64 of the same weights says what is right."""
    model = leapt(config, factor)
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


@pytest.mark.parametrize("config", [SimpleNPCFGConfig(), TensorPCFGConfig()], ids=lambda config: config.kind)
def test_kernels_bear_it(config: object) -> None:
    """The inside algorithm as a card runs it, the rules and the chart in bfloat16; products of factors included."""
    grammar = leapt(config, 12.0).grammar()  # type: ignore[operator]
    words = torch.randint(1, 12, (2, 5), generator=torch.Generator().manual_seed(0))
    simple = grammar if isinstance(grammar, SimpleGrammar) else grammar.to_simple()
    emissions = grammar.emissions.log_probabilities(words)
    inputs = [emissions, simple.root, simple.left.bfloat16(), simple.right.bfloat16()]
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    log_z = inside(*inputs, backend="triton", precision="bf16")
    exact = inside(*(tensor.detach().double() for tensor in inputs))
    torch.testing.assert_close(log_z.double(), exact, rtol=1e-5, atol=0.0)
    assert all(bool(found.isfinite().all()) for found in torch.autograd.grad(log_z.sum(), inputs))
