"""Minimum-Bayes-risk decoding: the binary tree whose spans have the largest sum of marginals."""

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import check_prefix_lengths


def best_trees(
    marginals: Tensor, lengths: Tensor | None = None, forbidden: Tensor | None = None, final_bonus: float = 0.0
) -> list[list[tuple[int, int]]]:
    """Find the binary tree with the largest sum of span marginals for each sentence.

    Args:
        marginals: ``[B, n + 1, n + 1]``, the weight of span (i, j), as ``span_marginals`` returns it.
        lengths: ``[B]``, the lengths of the sentences; n for all of them by default.
        forbidden: ``[B, n + 1, n + 1]``, boolean: spans that no tree may contain.
        final_bonus: what is added to the marginal of every span that ends its sentence.

    Returns:
        For each sentence the spans of width 2 or more of its tree, in preorder; an empty list for a sentence of one
        word. Of trees with equal sums the one with the leftmost splits is returned, so that the result does not depend
        on the other sentences of the batch.

    Raises:
        InputError: if a shape is wrong, or if the forbidden spans leave a sentence without any tree.

    >>> marginals = torch.zeros(1, 4, 4)
    >>> marginals[0, 0, 2], marginals[0, 1, 3], marginals[0, 0, 3] = 0.3, 0.7, 1.0
    >>> best_trees(marginals)
    [[(0, 3), (1, 3)]]
    """
    marks = best_tree_mask(marginals, lengths, forbidden, final_bonus)
    # Sorted by start and then by decreasing end, spans are in preorder.
    sentence, start, end = marks.flip(2).nonzero().unbind(1)
    posts = marks.shape[1]
    trees: list[list[tuple[int, int]]] = [[] for _ in range(marks.shape[0])]
    for b, i, j in zip(sentence.tolist(), start.tolist(), (posts - 1 - end).tolist(), strict=True):
        trees[b].append((i, j))
    return trees


def best_tree_mask(
    marginals: Tensor, lengths: Tensor | None = None, forbidden: Tensor | None = None, final_bonus: float = 0.0
) -> Tensor:
    """Compute ``best_trees`` as a boolean mask ``[B, n + 1, n + 1]``, true at the spans of the tree."""
    if marginals.dim() != 3 or marginals.shape[1] != marginals.shape[2]:
        raise InputError(f"marginals has shape {list(marginals.shape)}; it must be [B, n + 1, n + 1]")
    if forbidden is not None:
        if forbidden.shape != marginals.shape:
            raise InputError(f"forbidden has shape {list(forbidden.shape)}; it must be {list(marginals.shape)}")
        marginals = marginals.masked_fill(forbidden, -torch.inf)
    batch, posts, _ = marginals.shape
    n = posts - 1
    device = marginals.device
    lengths = check_prefix_lengths(lengths, batch, n).to(device)
    if final_bonus:
        final = torch.arange(posts, device=device) == lengths[:, None]  # [B, n + 1]
        marginals = marginals + final_bonus * final[:, None]
    # The best sum of span (i, j) is stored at [i, j] and at [j, i], so that both children of all splits are strided
    # views.
    totals = marginals.new_zeros(batch, posts, posts)
    choices: dict[int, Tensor] = {}
    for width in range(2, n + 1):
        stride = (posts * posts, posts + 1, 1)
        size = (batch, posts - width, width - 1)
        before = totals.as_strided(size, stride, 1)  # (i, i + k)
        after = totals.as_strided(size, stride, width * posts + 1)  # (i + k, i + width), read at [i + width, i + k]
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
