"""Sentences as callers may pass them, and the way back from a model's tokens to their words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Union

from simplepcfg.data.preprocessing import Prepared, Preprocessing
from simplepcfg.data.tokens import checked_words, words_and_tags
from simplepcfg.data.trees import PHRASE_LABEL, WORD_LABEL, SpanTree
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from nltk.tree import Tree

# A string is split as the run says; of a tree the words are taken, and the tags tell its punctuation.
Sentence = Union[str, Sequence[str], SpanTree, "Tree"]


def split_sentences(
    sentences: Iterable[Sentence], preprocessing: Preprocessing | None = None
) -> Iterator[tuple[Sequence[str], Sequence[str] | None]]:
    """Return the words of each sentence and, where it is a tree, the tags that tell its punctuation.

    Strings are split as `preprocessing` says, without it at white space.
    """
    return words_and_tags(listed(sentences), str.split if preprocessing is None else preprocessing.split)


def listed(sentences: Iterable[object]) -> list[Iterable[object] | SpanTree]:
    """Return the sentences as a list; refuse what is no list of sentences."""
    if isinstance(sentences, str):
        raise InputError(f"sentences is the single string {sentences[:40]!r}; give a list of sentences")
    if not isinstance(sentences, Iterable) or isinstance(sentences, bytes):
        raise InputError(f"sentences is {sentences!r}; give a list of sentences")
    if isinstance(sentences, Mapping) or hasattr(sentences, "columns"):
        raise InputError(f"sentences is a {type(sentences).__name__}; give its sentences as a list, or one column")
    if hasattr(sentences, "leaves"):
        raise InputError("sentences is a single tree; give a list of trees")
    items: list[Iterable[object] | SpanTree] = []
    for number, item in enumerate(sentences):
        if not isinstance(item, Iterable | SpanTree) or isinstance(item, bytes):
            raise InputError(f"sentence {number} is {item!r}; give a string, a list of words or a tree")
        if isinstance(item, Mapping):
            columns = ", ".join(map(str, item))
            raise InputError(f"sentence {number} is a row of columns ({columns}); give one column, such as its text")
        items.append(item)
    return items


def region_texts(sentences: Iterable[object]) -> list[list[str]]:
    """Return sentences as the texts of their regions; refuse a sentence that is one string."""
    texts = []
    for number, item in enumerate(listed(sentences)):
        if isinstance(item, str | SpanTree):
            raise InputError(
                f"sentence {number} is {str(item)[:40]!r}; give a list of its regions, such as ['The dog', 'barks.']"
            )
        texts.append(checked_words(item, number))
    return texts


def original_tree(
    prepared: Prepared,
    spans: Iterable[tuple[int, int, str]] = (),
    tags: Sequence[str] = (),
    dropped: Sequence[str] | None = None,
) -> SpanTree:
    """Return a model's labelled spans over its tokens, parents first, as a tree over the original words.

    Words that preprocessing dropped hang from the lowest node around them, which at the sentence's ends is the root;
    they have the tags of `dropped`, which has one a word. An added `<eos>` is not shown: a span that then covers the
    same words as one below it goes, and the lower one's label stays. Without spans all words hang from one `X`.
    """
    words, kept, n = prepared.words, prepared.kept, len(prepared.kept)
    if not words:
        return SpanTree((), (), ())
    labels = {(i, min(j, n)): label for i, j, label in spans if min(j, n) - i >= 2}
    tagged = [WORD_LABEL] * len(words) if dropped is None else list(dropped)
    for index, tag in zip(kept, tags, strict=False):
        tagged[index] = tag
    nodes = [
        (0, len(words), label) if (i, j) == (0, n) else (kept[i], kept[j - 1] + 1, label)
        for (i, j), label in labels.items()
    ]
    nodes.sort(key=lambda node: (node[0], -node[1]))
    return SpanTree(tuple(words), tuple(tagged), tuple(nodes) or ((0, len(words), PHRASE_LABEL),))


def nltk_trees(trees: Iterable[SpanTree]) -> list[Tree]:
    """Return trees as `nltk.Tree`s; that of an empty sentence has no children."""
    from simplepcfg.inference.notebook_trees import Tree

    plain = [tree.to_nltk() if tree.words else Tree("X", []) for tree in trees]
    return [Tree(tree.label(), list(tree)) for tree in plain]
