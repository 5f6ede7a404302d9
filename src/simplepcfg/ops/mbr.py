"""Minimum-Bayes-risk trees: the binary tree whose spans have the largest total marginal."""

import torch
from torch import Tensor

from simplepcfg.errors import InputError


def best_trees(
    marginals: Tensor, lengths: Tensor | None = None, forbidden: Tensor | None = None
) -> list[list[tuple[int, int]]]:
    """The spans of each sentence's best tree, width 2 or more, parents before children, left before right.

    Args:
        marginals: ``[B, n + 1, n + 1]``, the weight of span (i, j), as ``span_marginals`` gives it.
        lengths: ``[B]``; n for all where left out.
        forbidden: ``[B, n + 1, n + 1]`` of bool, spans that no tree may have, however little the alternatives weigh.

    Ties go to the leftmost split, so that the answer does not depend on the batch around a sentence. A sentence of one
    word has no such span.
    """
    marks = best_tree_marks(marginals, lengths, forbidden)
    # Ordered by start, then by falling end: that is preorder.
    sentence, start, end = marks.flip(2).nonzero().unbind(1)
    posts = marks.shape[1]
    found: list[list[tuple[int, int]]] = [[] for _ in range(marks.shape[0])]
    for b, i, j in zip(sentence.tolist(), start.tolist(), (posts - 1 - end).tolist(), strict=True):
        found[b].append((i, j))
    return found


def best_tree_marks(marginals: Tensor, lengths: Tensor | None = None, forbidden: Tensor | None = None) -> Tensor:
    """The same as a mask ``[B, n + 1, n + 1]``: true at the spans of the best tree."""
    if marginals.dim() != 3 or marginals.shape[1] != marginals.shape[2]:
        raise InputError(f"marginals has shape {list(marginals.shape)}; it must be [B, n + 1, n + 1]")
    if forbidden is not None:
        if forbidden.shape != marginals.shape:
            raise InputError(f"forbidden has shape {list(forbidden.shape)}; it must be {list(marginals.shape)}")
        marginals = marginals.masked_fill(forbidden, -torch.inf)
    batch, posts, _ = marginals.shape
    n = posts - 1
    device = marginals.device
    if lengths is None:
        lengths = torch.full((batch,), n, device=device)
    lengths = lengths.to(device)
    # Best totals, kept twice: (i, j) above the diagonal, and below it at (j, i), so that splits are strided views.
    totals = marginals.new_zeros(batch, posts, posts)
    choices: dict[int, Tensor] = {}
    for width in range(2, n + 1):
        stride = (posts * posts, posts + 1, 1)
        size = (batch, posts - width, width - 1)
        before = totals.as_strided(size, stride, 1)  # (i, i + k)
        after = totals.as_strided(size, stride, width * posts + 1)  # (i + k, i + width), kept at its mirror
        best, choices[width] = (before + after).max(2)
        best = best + torch.diagonal(marginals, width, 1, 2)
        torch.diagonal(totals, width, 1, 2).copy_(best)
        torch.diagonal(totals, -width, 1, 2).copy_(best)
    marks = torch.zeros(batch, posts, posts, dtype=torch.bool, device=device)
    longer = (lengths > 1).nonzero().squeeze(1)
    if forbidden is not None:
        treeless = totals[longer, 0, lengths[longer]] == -torch.inf
        if bool(treeless.any()):
            first = int(longer[treeless.nonzero()[0, 0]])
            raise InputError(f"sentence {first}: the forbidden spans leave no tree; allow more of them")
    marks[longer, 0, lengths[longer]] = True
    for width in range(n, 1, -1):
        b, i = torch.diagonal(marks, width, 1, 2).nonzero().unbind(1)
        middle = i + 1 + choices[width][b, i]
        for start, end in ((i, middle), (middle, i + width)):
            wide = end - start > 1
            marks[b[wide], start[wide], end[wide]] = True
    return marks
