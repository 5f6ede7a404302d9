"""Trees from the top down, all of them in step: node t of every tree at once, n − 1 steps for any number of trees.

A binary tree in preorder needs no stack: the left child of node t, span (i, j) split at k, is node t + 1, and the right
child is node t + k − i, after the k − i − 1 nodes of the left one. So a parent writes its children where they will be
looked for.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# Given the step and each tree's node (start, end, label, whether it has one at this step), all [T]: the split, and
# the symbols of the left and right child, a nonterminal where the child is wide and a preterminal where it is a word.
Choose = Callable[[int, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


@dataclass(slots=True)
class Nodes:
    """Trees in the making: nodes and tags of T trees, -1 where there is none, and a spare column."""

    starts: Tensor  # [T, n]: column n - 1 is the spare one
    ends: Tensor
    splits: Tensor
    labels: Tensor
    tags: Tensor  # [T, n + 1]

    @classmethod
    def begin(cls, roots: Tensor, lengths: Tensor, n: int) -> "Nodes":
        """With the first node of each tree in place; ``roots`` [T] is -1 where there is no tree."""
        nothing = torch.full((5, roots.shape[0], n + 1), -1, dtype=torch.int64, device=roots.device)
        starts, ends, splits, labels = nothing[:4, :, :n].contiguous()
        nodes = cls(starts, ends, splits, labels, nothing[4])
        alive = roots >= 0
        nodes.starts[:, 0] = torch.where(alive, 0, -1)
        nodes.ends[:, 0] = torch.where(alive, lengths, -1)
        nodes.labels[:, 0] = roots
        return nodes

    def finished(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Spans, splits, labels and tags, without the spare columns."""
        spans = torch.stack([self.starts[:, :-1], self.ends[:, :-1]], -1)
        return spans, self.splits[:, :-1], self.labels[:, :-1], self.tags[:, :-1]


def descend(nodes: Nodes, choose: Choose) -> None:
    """Fill in all nodes below the first."""
    n = nodes.labels.shape[1]
    for step in range(n - 1):
        label = nodes.labels[:, step]
        active = label >= 0
        # Where a tree has no node left, a stand-in; what is chosen for it goes to the spare column.
        start = torch.where(active, nodes.starts[:, step], 0)
        end = torch.where(active, nodes.ends[:, step], 2)
        split, *symbols = choose(step, start, end, label.clamp(min=0), active)
        nodes.splits[:, step] = torch.where(active, split, -1)
        sides = ((start, split, torch.full_like(start, step + 1)), (split, end, step + split - start))
        for (begin, stop, place), symbol in zip(sides, symbols, strict=True):
            wide = active & (stop - begin > 1)
            column = torch.where(wide, place, n - 1)[:, None]
            nodes.starts.scatter_(1, column, begin[:, None])
            nodes.ends.scatter_(1, column, stop[:, None])
            nodes.labels.scatter_(1, column, symbol[:, None])
            word = torch.where(active & ~wide, begin, n)[:, None]
            nodes.tags.scatter_(1, word, symbol[:, None])
