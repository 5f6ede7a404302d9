"""Sizes of the inside algorithm, with the flops, the bytes and the memory that they need, and random inputs of them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.inside import inside


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of a batch and of a grammar; ``lengths`` is given if the sentences differ, and n is the longest."""

    batch: int
    n: int
    nonterminals: int
    preterminals: int
    lengths: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, text: str, separator: str = ",") -> "Size":
        """Parse ``B,n,N,P``, or with another separator."""
        parts = text.split(separator)
        try:
            batch, n, nonterminals, preterminals = (int(part) for part in parts)
        except ValueError:
            form, example = separator.join("BnNP"), separator.join(("16", "20", "512", "1024"))
            raise InputError(f'size "{text}" is not four whole numbers; give {form} such as {example}') from None
        if min(batch, nonterminals, preterminals) < 1 or n < 2:
            raise InputError(f'size "{text}" is too small; n is at least 2, and the others at least 1')
        return cls(batch, n, nonterminals, preterminals)

    def __str__(self) -> str:
        length = f"n = {self.n}" if self.lengths is None else f"n up to {self.n}"
        return f"B = {self.batch}, {length}, N = {self.nonterminals}, P = {self.preterminals}"

    @property
    def all_lengths(self) -> tuple[int, ...]:
        """The length of each sentence."""
        return self.lengths or (self.n,) * self.batch

    @property
    def words(self) -> int:
        """Number of words of all sentences."""
        return sum(self.all_lengths)

    @property
    def inner_spans(self) -> int:
        """Number of spans that need a matrix product: of width 2 or more, without whole sentences."""
        return sum(max(0, n * (n - 1) // 2 - 1) for n in self.all_lengths)

    @property
    def splits(self) -> int:
        """Number of splits (i, k, j) of all sentences."""
        return sum(n * (n * n - 1) // 6 for n in self.all_lengths)

    @property
    def flops(self) -> float:
        """Flops of the matrix products: one product with [L | R] forward, and two backward."""
        states, tags = self.nonterminals, self.preterminals
        return 12.0 * states * states * self.inner_spans + 12.0 * states * tags * self.words

    def split_bytes(self, itemsize: int) -> float:
        """Return the bytes that split sums read without reuse: two rows for each split forward, and four backward."""
        return 6.0 * itemsize * self.nonterminals * self.splits

    def memory(self, backend: str, precision: str = "fp32") -> float:
        """Estimate the peak memory of both passes in bytes, including the rules."""
        states, tags, words = self.nonterminals, self.preterminals, self.words
        rules = 2 * states * (states + tags)
        rows = (self.inner_spans + self.batch + words) * states
        widest = max(self.batch * (self.n - width + 1) * (width - 1) for width in range(2, self.n + 1)) * states
        emissions = 3 * words * tags
        match backend:
            case "log_sum_exp":
                pairs = 2 * states * max(states * self.batch * max(self.n - 2, 0), tags * words)
                saved = 2 * states * (states * self.inner_spans + tags * words) + states * self.splits
                return 4.0 * (saved + 3 * pairs + 4 * rules + emissions)
            case "log_einsum_exp":
                return 4.0 * (states * self.splits + 4 * widest + 10 * rows + 4 * rules + emissions)
            case "triton":
                item = 2 if precision == "bf16" else 4
                return item * (6.0 * rows + emissions) + 8.0 * rules
        square = self.batch * (self.n + 1) ** 2 * states
        return 4.0 * (2 * square + 2 * rows + 3 * rules + emissions)


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
