"""Ordinary PCFGs to test with, and full enumeration in float64: every tree, and every derivation, one by one."""

import itertools
import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from oracle import binary_trees, exact_log, exact_log_sum
from simplepcfg.ops.dense import DenseArguments, check_dense_arguments

Span = tuple[int, int]


@dataclass(frozen=True)
class DenseCase:
    """Arguments of the dense inside algorithm, leaves that can be differentiated by."""

    log_emissions: Tensor
    root: Tensor
    rules: Tensor

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.log_emissions, self.root, self.rules

    def arguments(self, lengths: Tensor | None = None, span_bonus: Tensor | None = None) -> DenseArguments:
        """The same in the form that all questions but the inside algorithm take."""
        return check_dense_arguments(*self.tensors(), lengths, span_bonus)

    def to(self, dtype: torch.dtype) -> "DenseCase":
        """A detached copy in another type, with leaves of its own."""
        return DenseCase(*(tensor.detach().to(dtype).requires_grad_() for tensor in self.tensors()))

    def sentence(self, b: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """One sentence's arguments."""
        root = self.root[b] if self.root.dim() == 2 else self.root
        rules = self.rules[b] if self.rules.dim() == 4 else self.rules
        return self.log_emissions[b, :length], root, rules


def random_dense_case(
    batch: int,
    n: int,
    nonterminals: int,
    preterminals: int,
    *,
    scale: float = 1.0,
    batched: bool = False,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> DenseCase:
    """Rules are the softmax of normal logits times ``scale``: 1 is flat, 30 nearly deterministic."""
    generator = torch.Generator().manual_seed(seed)
    lead = (batch,) if batched else ()
    symbols = nonterminals + preterminals

    def logits(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64) * scale

    emissions = logits(batch, n, preterminals).log_softmax(-1)
    root = logits(*lead, nonterminals).softmax(-1)
    rules = logits(*lead, nonterminals, symbols * symbols).softmax(-1).unflatten(-1, (symbols, symbols))
    return DenseCase(emissions, root, rules).to(dtype)


def dense_with_zeros(case: DenseCase, seed: int = 0) -> DenseCase:
    """Half of all rules and emissions become impossible; rows are not renormalised."""
    generator = torch.Generator().manual_seed(seed)

    def keep(tensor: Tensor) -> Tensor:
        return torch.rand(tensor.shape, generator=generator) < 0.5

    emissions = case.log_emissions.detach().masked_fill(~keep(case.log_emissions), -torch.inf)
    rules = [tensor.detach() * keep(tensor) for tensor in (case.root, case.rules)]
    return DenseCase(emissions, *rules).to(case.root.dtype)


def dense_tree_log_weights(
    log_emissions: Tensor, root: Tensor, rules: Tensor, span_bonus: Tensor | None = None
) -> list[tuple[tuple[tuple[Span, int], ...], Tensor]]:
    """(tree, log-probability summed over its symbols) for every tree of one sentence, all in logs, differentiable."""
    n = log_emissions.shape[0]
    if n == 1:  # a preterminal is no sentence
        return []
    weights = _weights_of_trees(log_emissions, root, rules, span_bonus)
    return list(zip(binary_trees(0, n), weights, strict=True))


def dense_log_partition(*args: Tensor | None) -> Tensor:
    """log Z of one sentence by summing over trees."""
    weights = [weight for _, weight in dense_tree_log_weights(*args)]  # type: ignore[arg-type]
    return exact_log_sum(torch.stack(weights)) if weights else torch.tensor(-math.inf, dtype=torch.float64)


def _weights_of_trees(log_emissions: Tensor, root: Tensor, rules: Tensor, span_bonus: Tensor | None) -> Tensor:
    """[trees], in the order of `binary_trees`: a row for every tree over a span, and no sum over them."""
    split, log_rules = root.shape[0], exact_log(rules)

    def columns(i: int, j: int) -> slice:
        return slice(split, None) if j - i == 1 else slice(split)

    @cache
    def of_span(i: int, j: int) -> Tensor:  # [trees, symbols]
        if j - i == 1:
            return log_emissions[i][None]
        found = []
        for k in range(i + 1, j):
            children = of_span(i, k)[:, None, :, None] + of_span(k, j)[:, None]  # [trees, trees, symbols, symbols]
            pairs = log_rules[:, columns(i, k), columns(k, j)] + children.flatten(0, 1)[:, None]
            found.append(exact_log_sum(pairs.flatten(2)))
        total = torch.cat(found)
        return total if span_bonus is None else total + span_bonus[i, j]

    return exact_log_sum(exact_log(root) + of_span(0, log_emissions.shape[0]))


def dense_derivations(
    log_emissions: Tensor, root: Tensor, rules: Tensor, span_bonus: Tensor | None = None
) -> list[tuple[float, dict[Span, int]]]:
    """(log-probability, symbol of each span) of every derivation of one sentence: for tiny grammars only."""
    n, preterminals = log_emissions.shape
    log_emit, log_root, log_rules = (t.detach().tolist() for t in (log_emissions, exact_log(root), exact_log(rules)))
    bonus = None if span_bonus is None else span_bonus.tolist()
    nonterminals = root.shape[0]
    found = []
    for tree in binary_trees(0, n):
        spans = [span for span, _ in tree]
        for symbols in itertools.product(range(nonterminals), repeat=len(spans)):
            for tags in itertools.product(range(preterminals), repeat=n):
                label = dict(zip(spans, symbols, strict=True))
                label |= {(i, i + 1): nonterminals + tag for i, tag in enumerate(tags)}
                weight = log_root[label[0, n]]
                for (i, j), k in tree:
                    weight += log_rules[label[i, j]][label[i, k]][label[k, j]]
                    weight += 0.0 if bonus is None else bonus[i][j]
                weight += sum(log_emit[i][tag] for i, tag in enumerate(tags))
                found.append((weight, label))
    return found
