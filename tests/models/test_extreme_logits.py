"""With extremely large logits every sentence still has a probability and a gradient."""

import pytest
import torch
from torch import nn

from model_checks import tiny_model_of
from simplepcfg.grammars import SimpleGrammar
from simplepcfg.models import (
    MODELS,
    LowRankHMMConfig,
    NeuralHMMConfig,
    SimpleNPCFGConfig,
    TensorPCFGConfig,
)
from simplepcfg.ops.forward import forward
from simplepcfg.ops.inside import inside


def leapt(config: object, factor: float) -> nn.Module:
    model = tiny_model_of(config, 12)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(1.0 if name.startswith("encoder") else factor)
    return model


@pytest.mark.parametrize("factor", [10.0, 100.0])
@pytest.mark.parametrize("config", [config() for config in MODELS], ids=lambda config: config.kind)
def test_extreme_logits(config: object, factor: float) -> None:
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
    assert float(loss.detach().min()) >= 0  # no sentence is more than certain
    torch.testing.assert_close(loss.double(), exact, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("config", [SimpleNPCFGConfig(), TensorPCFGConfig()], ids=lambda config: config.kind)
def test_kernels_handle_extreme_logits(config: object) -> None:
    """The inside algorithm as a GPU runs it, the rules and the chart in bfloat16; products of factors included."""
    grammar = leapt(config, 12.0).grammar()  # type: ignore[operator]
    words = torch.randint(1, 12, (2, 5), generator=torch.Generator().manual_seed(0))
    simple = grammar if isinstance(grammar, SimpleGrammar) else grammar.to_simple()
    emissions = grammar.emissions.log_probabilities(words)
    inputs = [emissions, simple.root, simple.left.bfloat16(), simple.right.bfloat16()]
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    log_z = inside(*inputs, backend="triton", precision="bf16")
    exact = inside(*(tensor.detach().double() for tensor in inputs))
    torch.testing.assert_close(log_z.double(), exact, rtol=1e-5, atol=0.0)
    gradients = torch.autograd.grad(log_z.sum(), inputs)
    assert all(bool(found.isfinite().all()) for found in gradients)
    torch.testing.assert_close(gradients[0].sum(-1), torch.ones(2, 5), rtol=4e-2, atol=0.0)  # each word is emitted once


@pytest.mark.parametrize("factor", [10.0, 30.0, 100.0])
@pytest.mark.parametrize("config", [NeuralHMMConfig(), LowRankHMMConfig(), SimpleNPCFGConfig()], ids=lambda c: c.kind)
def test_every_word_is_emitted_once(config: object, factor: float) -> None:
    """The gradient by a word's log-emissions is the posterior over its tags, however low these are."""
    grammar = leapt(config, factor).grammar()  # type: ignore[operator]
    words = torch.randint(1, 12, (4, 9), generator=torch.Generator().manual_seed(0))
    emissions = grammar.emissions.log_probabilities(words).detach().requires_grad_()
    if isinstance(grammar, SimpleGrammar):
        log_p = inside(emissions, grammar.root, grammar.left, grammar.right)
    else:
        log_p = forward(emissions, grammar.start, grammar.transitions)
    (found,) = torch.autograd.grad(log_p.sum(), emissions)
    torch.testing.assert_close(found.sum(-1), torch.ones(4, 9), rtol=1e-3, atol=0.0)
