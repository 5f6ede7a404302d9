"""An `nltk.Tree` that a notebook can show; importing this file imports nltk."""

from __future__ import annotations

from nltk.tree import Tree as NltkTree

from simplepcfg.data.trees import SpanTree


class Tree(NltkTree):
    """An `nltk.Tree`, equal to any other of the same labels and children, that draws itself without svgling."""

    def _repr_svg_(self) -> str:
        tree = SpanTree.from_nltk(self) if len(self) else SpanTree((), (), ())
        return tree.to_svg()

    def __eq__(self, other: object) -> bool:
        """Tell whether labels and children are the same."""
        return isinstance(other, NltkTree) and (self.label(), list(self)) == (other.label(), list(other))

    def __ne__(self, other: object) -> bool:
        """Tell whether labels or children differ."""
        return not self == other

    __hash__ = None  # type: ignore[assignment]
