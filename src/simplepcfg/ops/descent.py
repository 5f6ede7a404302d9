"""Top-down construction of many binary trees in parallel: step t adds node t of every tree, in preorder.

No stack is needed. Let node t be the span (i, j), split at k. Its left child is node t + 1, and its right child is node
t + k − i, because the left subtree has k − i − 1 nodes. Each step therefore writes both children directly to the
columns of the steps that will expand them. A batch takes n − 1 steps, whatever the number of trees.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# A function that expands one node of each of T trees. Its arguments are the step and four tensors [T]: start, end and
# label of the node, and whether the tree has a node at this step. It returns three tensors [T]: the split, the symbol
# of the left child and that of the right child. A symbol is a preterminal for a child of one word, else a nonterminal.
Choose = Callable[[int, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


@dataclass(slots=True)
class Nodes:
    """Nodes and tags of T trees under construction; -1 marks a missing node.

    Each tensor has one spare column at its end, to which writes that concern no tree are redirected.
    """

    starts: Tensor  # [T, n]: column n - 1 is the spare one
    ends: Tensor
    splits: Tensor
    labels: Tensor
    tags: Tensor  # [T, n + 1]

    @classmethod
    def begin(cls, roots: Tensor, lengths: Tensor, n: int) -> "Nodes":
        """Create trees that have their first node only, from its label ``roots`` [T]; -1 marks a missing tree."""
        nothing = torch.full((5, roots.shape[0], n + 1), -1, dtype=torch.int64, device=roots.device)
        starts, ends, splits, labels = nothing[:4, :, :n].contiguous()
        nodes = cls(starts, ends, splits, labels, nothing[4])
        alive = roots >= 0
        nodes.starts[:, 0] = torch.where(alive, 0, -1)
        nodes.ends[:, 0] = torch.where(alive, lengths, -1)
        nodes.labels[:, 0] = roots
        return nodes

    def to_tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return spans, splits, labels and tags without the spare columns."""
        spans = torch.stack([self.starts[:, :-1], self.ends[:, :-1]], -1)
        return spans, self.splits[:, :-1], self.labels[:, :-1], self.tags[:, :-1]


def descend(nodes: Nodes, choose: Choose) -> None:
    """Add all nodes below the first, in place."""
    n = nodes.labels.shape[1]
    for step in range(n - 1):
        label = nodes.labels[:, step]
        active = label >= 0
        # A tree without a node at this step expands a dummy node; the result is written to the spare column.
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
