"""Every labelled derivation of a short sentence under a tiny grammar, one by one, in float64."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from operator import getitem

import torch
from torch import Tensor

from oracle import Span, binary_trees
from random_grammars import Case


@dataclass(frozen=True)
class Derivation:
    """A tree with a symbol on every span; words' symbols are N + tag."""

    splits: dict[Span, int]
    symbols: dict[Span, int]
    log_weight: float

    def rules(self) -> Iterator[tuple[str, int, int]]:
        """("left" or "right", parent, child) of every rule that it uses."""
        for (i, j), k in self.splits.items():
            yield "left", self.symbols[i, j], self.symbols[i, k]
            yield "right", self.symbols[i, j], self.symbols[k, j]


@dataclass(frozen=True)
class Answers:
    """What the enumeration says of one sentence."""

    log_z: float
    spans: Tensor  # [n + 1, n + 1]
    symbols: Tensor  # [n + 1, n + 1, N]
    tags: Tensor  # [n, P]
    root: Tensor
    left: Tensor
    right: Tensor
    entropy: float


def sparse(case: Case, seed: int = 0, share: float = 0.2) -> Case:
    """Some rules and emissions become impossible, so few that most sentences stay possible."""
    generator = torch.Generator().manual_seed(seed)
    emissions, *rules = (tensor.detach().clone() for tensor in case.tensors())
    gone = [torch.rand(tensor.shape, generator=generator) < share for tensor in (emissions, *rules)]
    emissions[gone[0]] = -math.inf
    for rule, mask in zip(rules, gone[1:], strict=True):
        rule[mask] = 0.0
    return Case(emissions, *rules).to(case.root.dtype)


def derivations(
    log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor, span_bonus: Tensor | None = None
) -> list[Derivation]:
    """All of one sentence, those of probability 0 too: log-emissions [n, P]."""
    emissions = log_emissions.detach().double().tolist()
    log_root, log_left, log_right = (t.detach().double().log().tolist() for t in (root, left, right))
    bonus = None if span_bonus is None else span_bonus.tolist()
    n, nonterminals, preterminals = len(emissions), len(log_root), len(emissions[0])
    tagged = [
        ({(i, i + 1): nonterminals + tag for i, tag in enumerate(tags)}, sum(map(getitem, emissions, tags)))
        for tags in itertools.product(range(preterminals), repeat=n)
    ]
    found = []
    for tree in binary_trees(0, n) if n > 1 else ():
        spans = [span for span, _ in tree]
        for symbols in itertools.product(range(nonterminals), repeat=len(spans)):
            above = dict(zip(spans, symbols, strict=True))
            for words, emitted in tagged:
                label = above | words
                weight = log_root[label[0, n]] + emitted
                for (i, j), k in tree:
                    weight += log_left[label[i, j]][label[i, k]] + log_right[label[i, j]][label[k, j]]
                    weight += 0.0 if bonus is None else bonus[i][j]
                found.append(Derivation(dict(tree), label, weight))
    return found


def probabilities(found: list[Derivation]) -> tuple[list[float], float]:
    """Of each derivation given the sentence, and log Z."""
    log_z = float(torch.tensor([d.log_weight for d in found], dtype=torch.float64).logsumexp(0)) if found else -math.inf
    if log_z == -math.inf:
        return [0.0] * len(found), log_z
    return [math.exp(d.log_weight - log_z) for d in found], log_z


def answers(*rules: Tensor, span_bonus: Tensor | None = None) -> Answers:
    """Posteriors, counts and entropy of one sentence by adding up its derivations."""
    log_emissions, root, left, _ = rules
    n, nonterminals = log_emissions.shape[0], root.shape[0]
    found = derivations(*rules, span_bonus=span_bonus)
    shares, log_z = probabilities(found)
    totals: defaultdict[tuple[object, ...], float] = defaultdict(float)  # summing in tensors takes ten times as long
    for derivation, share in zip(found, shares, strict=True):
        totals["root", derivation.symbols[0, n]] += share
        for rule in derivation.rules():
            totals[rule] += share
        for (i, j), symbol in derivation.symbols.items():
            if j - i == 1:
                totals["tags", i, symbol - nonterminals] += share
            else:
                totals["spans", i, j] += share
                totals["symbols", i, j, symbol] += share
    wide = {"dtype": torch.float64}
    result = Answers(
        log_z,
        torch.zeros(n + 1, n + 1, **wide),
        torch.zeros(n + 1, n + 1, nonterminals, **wide),
        torch.zeros(*log_emissions.shape, **wide),
        torch.zeros(nonterminals, **wide),
        torch.zeros(*left.shape, **wide),
        torch.zeros(*left.shape, **wide),
        -sum(p * math.log(p) for p in shares if p > 0) if log_z > -math.inf else -math.inf,
    )
    for (name, *place), total in totals.items():
        getattr(result, str(name))[tuple(place)] = total
    return result
