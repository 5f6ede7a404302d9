"""One forward and backward pass of the inside algorithm on random inputs, as in training."""

from collections.abc import Callable

import torch
from torch import Tensor

from simplepcfg.benchmarking.sizes import Size
from simplepcfg.ops.inside import inside


def forward_backward(size: Size, backend: str, precision: str, device: torch.device) -> Callable[[], object]:
    """Create random inputs, and return a function that computes log Z and the gradients of all inputs.

    Left and right are the halves of one buffer, in bfloat16 if that is measured on a GPU, so that no backend has to
    copy them.
    """
    generator = torch.Generator(device).manual_seed(0)
    kind = torch.bfloat16 if precision == "bf16" and device.type == "cuda" else torch.float32
    states = size.nonterminals
    both = torch.empty(2 * states, states + size.preterminals, dtype=kind, device=device)
    both.uniform_(0.01, 1.0, generator=generator)
    both.div_(both.sum(-1, keepdim=True, dtype=torch.float32))
    root = torch.rand(states, generator=generator, device=device).add_(0.01)
    emissions = torch.randn(size.batch, size.n, size.preterminals, generator=generator, device=device)
    inputs: list[Tensor] = [emissions.log_softmax(-1), root / root.sum(), both[:states], both[states:]]
    for tensor in inputs:
        tensor.requires_grad_()
    lengths = None if size.lengths is None else torch.tensor(size.lengths)

    def step() -> object:
        log_z = inside(*inputs, lengths=lengths, precision=precision, backend=backend)
        return torch.autograd.grad(log_z.sum(), inputs)

    return step
