"""Every question in float64 by the shortest program there is, over logarithms, with autograd for expectations.

A grammar of any family is written out as an ordinary PCFG (rules [N, S, S]); a hidden Markov model is a chain.
"""

import math

import numpy as np
import torch
from torch import Tensor

from simplepcfg.ops.trees import LabelledTree


def exact_sum(values: Tensor, dim: int) -> Tensor:
    """Log-sum-exp whose gradient is 0, not NaN, where everything is impossible."""
    top = values.detach().amax(dim, keepdim=True)
    top = torch.where(top == -math.inf, 0.0, top)
    total = (values - top).exp().sum(dim)
    return torch.where(total > 0, total, 1.0).log() + top.squeeze(dim) + torch.where(total > 0, 0.0, -math.inf)


def exact_max(values: Tensor, dim: int) -> Tensor:
    return values.amax(dim)


def tree_total(emissions: Tensor, root: Tensor, rules: Tensor, bonus: Tensor, reduce=exact_sum) -> Tensor:
    """Sum or maximum over all trees of one sentence; emissions [n, P], root [N] and rules [N, S, S] are logarithms.

    The bonus of a span is one number, or one for each nonterminal: [n + 1, n + 1] or [n + 1, n + 1, N].
    """
    n, states = len(emissions), len(root)
    chart: dict[tuple[int, int], Tensor] = {(i, i + 1): emissions[i] for i in range(n)}

    def block(i: int, j: int) -> slice:
        return slice(states, None) if j - i == 1 else slice(0, states)

    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            splits = [
                reduce((rules[:, block(i, k), block(k, j)] + chart[i, k][:, None] + chart[k, j]).flatten(1), 1)
                for k in range(i + 1, j)
            ]
            chart[i, j] = reduce(torch.stack(splits), 0) + bonus[i, j]
    return reduce(root + chart[0, n], 0) if n > 1 else torch.tensor(-math.inf, dtype=torch.float64)


def chain_total(emissions: Tensor, start: Tensor, transitions: Tensor, reduce=exact_sum) -> Tensor:
    """Sum or maximum over all sequences of states of one sentence; all are logarithms."""
    here = start + emissions[0]
    for row in emissions[1:]:
        here = reduce(here[:, None] + transitions, 0) + row
    return reduce(here, 0)


def best_bracketing(marginals: Tensor) -> float:
    """The largest total of span marginals that a binary tree has."""
    n = len(marginals) - 1
    best = {(i, i + 1): 0.0 for i in range(n)}
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            best[i, j] = float(marginals[i, j]) + max(best[i, k] + best[k, j] for k in range(i + 1, j))
    return best[0, n]


def entropy_of(log_z: Tensor, parts: list[Tensor]) -> float:
    """log Z − E[log weight], expectations being derivatives of log Z by logarithms."""
    counts = torch.autograd.grad(log_z, parts, retain_graph=True)
    used = sum(
        float((count[count != 0] * part.detach()[count != 0]).sum()) for count, part in zip(counts, parts, strict=True)
    )
    return float(log_z.detach()) - used


def best_scores(emissions: np.ndarray, root: np.ndarray, rules: np.ndarray, bonus: np.ndarray, k: int) -> list[float]:
    """The k largest log-weights of derivations of one sentence, of as many as there are; all are logarithms."""
    n, states = len(emissions), len(root)
    chart = {(i, i + 1): emissions[i][:, None] for i in range(n)}
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            found = []
            for m in range(i + 1, j):
                left, right = (slice(states, None) if b - a == 1 else slice(0, states) for a, b in ((i, m), (m, j)))
                pairs = chart[i, m][:, None, :, None] + chart[m, j][None, :, None, :]
                found.append((rules[:, left, right, None, None] + pairs).reshape(states, -1))
            chart[i, j] = np.sort(np.concatenate(found, 1), 1)[:, ::-1][:, :k] + bonus[i, j]
    if n == 1:
        return []
    scores = np.sort((root[:, None] + chart[0, n]).ravel())[::-1][:k]
    return [float(score) for score in scores if score > -math.inf]


def tree_score(
    tree: LabelledTree, emissions: np.ndarray, root: np.ndarray, rules: np.ndarray, bonus: np.ndarray
) -> float:
    """The log-weight of one tree, whose nodes are in preorder; all are logarithms."""
    nodes = iter(zip(tree.spans, tree.labels, strict=True))
    known = set(tree.spans)

    def below(i: int, j: int) -> tuple[int, float]:
        """The symbol over a span and the log-weight of what is below it."""
        if j - i == 1:
            return len(root) + tree.tags[i], float(emissions[i, tree.tags[i]])
        span, label = next(nodes)
        if span != (i, j):
            raise ValueError(f"{tree.spans} are not the spans of a tree in preorder")
        m = max((m for m in range(i + 1, j) if (i, m) in known), default=i + 1)
        (left, one), (right, other) = below(i, m), below(m, j)
        return label, float(rules[label, left, right]) + one + other + float(bonus[i, j])

    top, score = below(0, len(tree.tags))
    if next(nodes, None) is not None:
        raise ValueError(f"{tree.spans} are more spans than a tree has")
    return float(root[top]) + score


def prefix_probabilities(emit: np.ndarray, root: np.ndarray, rules: np.ndarray) -> tuple[list[float], float] | None:
    """P(a sentence begins with the first m words), m = 0 … n, and a bound on the relative error; all probabilities.

    Chains of left children of every length are summed by doubling: no subtraction loses digits. None where they are so
    long, because a symbol hardly ever has a first word, that the rounding of the rules themselves decides the answer.
    """
    n, states = len(emit), len(root)
    step = rules[:, :states].sum(2)  # [A, B]: B is the left child, whatever the right one is
    chains = np.eye(states)
    for doubling in range(60):
        chains, step = chains + step @ chains, step @ step
        # However improbable, chains through all symbols count: the first words may need them.
        if step.max() < 1e-18 and 1 << doubling >= states:
            break
    else:
        return None
    error = 1e-10 + 1e-13 * float(chains.max())
    if error > 1e-6:
        return None
    inner: dict[tuple[int, int], np.ndarray] = {}

    def whole(i: int, j: int) -> np.ndarray:
        """The inside probabilities of a span as a vector over all symbols."""
        if (i, j) not in inner:
            found = np.zeros(rules.shape[1])
            if j - i == 1:
                found[states:] = emit[i]
            else:
                parts = (np.einsum("abc,b,c->a", rules, whole(i, m), whole(m, j)) for m in range(i + 1, j))
                found[:states] = sum(parts)
            inner[i, j] = found
        return inner[i, j]

    answers = [1.0]
    for size in range(1, n + 1):
        begun: dict[int, np.ndarray] = {}
        for i in reversed(range(size)):
            found = np.zeros(rules.shape[1])
            first = np.zeros(states)
            if i == size - 1:
                found[states:] = emit[i]
                first += rules[:, states:].sum(2) @ emit[i]
            for j in range(i + 1, size):
                first += np.einsum("abc,b,c->a", rules, whole(i, j), begun[j])
            found[:states] = chains @ first
            begun[i] = found
        answers.append(float(root @ begun[0][:states]))
    return answers, error


def best_chains(emissions: np.ndarray, start: np.ndarray, transitions: np.ndarray, k: int) -> list[float]:
    """The k largest log-weights of sequences of states of one sentence; all are logarithms."""
    here = (start + emissions[0])[:, None]  # [S, k]
    for row in emissions[1:]:
        following = (here[:, None] + transitions[:, :, None]).transpose(1, 0, 2).reshape(len(start), -1)
        here = np.sort(following, 1)[:, ::-1][:, :k] + row[:, None]
    scores = np.sort(here.ravel())[::-1][:k]
    return [float(score) for score in scores if score > -math.inf]
