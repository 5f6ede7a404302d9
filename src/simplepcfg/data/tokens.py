"""Preprocessed tokens of text as a stream: from files of sentences or trees, or from sentences in memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from os import PathLike, fspath
from typing import cast

from simplepcfg.data.inputs import expanded
from simplepcfg.data.preprocessing import Preprocessing, TokenCache, has_penn_tags, with_word_tags
from simplepcfg.data.raw_text import LOOKED_AT, untokenized_remark
from simplepcfg.data.readers import read_sentences, read_trees, sniff
from simplepcfg.data.separators import separator_places
from simplepcfg.data.trees import SpanTree, as_tree
from simplepcfg.data.vocabulary import EOS
from simplepcfg.errors import InputError

# A sentence in memory: a string to be split at white space, a list of words, or a tree (nltk's too).
Item = str | Sequence[str] | SpanTree


class TextFiles(tuple[str, ...]):
    """Several files, folders or patterns that are one text."""


TextSource = str | PathLike[str] | TextFiles | Iterable[Item]  # files, or sentences in memory


def read_tokens(
    source: TextSource, preprocessing: Preprocessing, notes: list[str] | None = None, raw: bool = False
) -> Iterator[list[str]]:
    """Yield the preprocessed tokens of each sentence of a file (text or trees) or in memory; some may be empty.

    Text is read as a stream, and trees are held, since their tags are judged together. With `raw` a file of text holds
    paragraphs, which are split into sentences. A folder or a pattern stands for all its files (see `expanded`). Remarks
    for the user are appended to `notes`. Raises InputError for a file that cannot be read.
    """
    cache = TokenCache(preprocessing)
    for words, tags in _sentences(source, preprocessing, notes, raw):
        yield cache.tokens(words) if tags is None else preprocessing.apply(words, tags).tokens


def read_words(source: TextSource, preprocessing: Preprocessing, raw: bool = False) -> Iterator[list[str]]:
    """Yield for each sentence of `read_tokens` its tokens as they were written, from which others can be made."""
    for words, kept in _kept_words(source, preprocessing, raw):
        written = [words[index] for index in kept]
        yield [*written, EOS] if preprocessing.eos and written and written[-1] != EOS else written


def read_breaks(source: TextSource, preprocessing: Preprocessing, raw: bool = False) -> Iterator[list[int]]:
    """Yield for each sentence of `read_tokens` the places between its tokens where a separator was dropped."""
    for words, kept in _kept_words(source, preprocessing, raw):
        yield separator_places(words, kept)


def _kept_words(
    source: TextSource, preprocessing: Preprocessing, raw: bool
) -> Iterator[tuple[Sequence[str], list[int]]]:
    """Yield the words of each sentence, and the indices of those that become tokens."""
    cache = TokenCache(preprocessing)
    for words, tags in _sentences(source, preprocessing, None, raw):
        if tags is None:
            yield words, [index for index, word in enumerate(words) if cache[word] is not None]
        else:
            yield words, preprocessing.apply(words, tags).kept


def _sentences(
    source: TextSource, preprocessing: Preprocessing, notes: list[str] | None, raw: bool
) -> Iterator[tuple[Sequence[str], Sequence[str] | None]]:
    """Yield the words of each sentence, and the tags of trees."""
    if not isinstance(source, str | PathLike | TextFiles):
        yield from words_and_tags(source, preprocessing.split)
        return
    for path in expanded(source if isinstance(source, TextFiles) else [fspath(source)]):
        if sniff(path) == "trees":
            trees = list(read_trees(path))
            if notes is not None and preprocessing.punctuation == "drop" and not has_penn_tags(trees):
                notes.append(f"{path}: the tags are not Penn's, so punctuation is what has no letter or digit")
            yield from ((tree.words, tree.tags) for tree in with_word_tags(trees))
            continue
        sentences = read_sentences(path, split=preprocessing.split, raw=raw, language=preprocessing.language)
        first = list(islice(sentences, LOOKED_AT))
        remark = None if notes is None or preprocessing.tokenize else untokenized_remark(first)
        if notes is not None and remark is not None:
            notes.append(f"{path}: {remark}; --raw splits it into sentences and words")
        yield from ((words, None) for words in chain(first, sentences))


def words_and_tags(
    items: Iterable[Iterable[object] | SpanTree], split: Callable[[str], list[str]]
) -> Iterator[tuple[Sequence[str], Sequence[str] | None]]:
    """Yield the words of sentences in memory and, of trees, the tags that tell their punctuation.

    Strings are split by `split`. From the first tree on all sentences are held, since tags are judged together.
    """
    held: list[list[str] | SpanTree] = []
    for number, item in enumerate(items):
        tree = as_tree(item)
        if tree is not None:
            held.append(tree)
            continue
        words = split(item) if isinstance(item, str) else checked_words(cast(Iterable[object], item), number)
        if held:
            held.append(words)
        else:
            yield words, None
    trees = iter(with_word_tags([item for item in held if isinstance(item, SpanTree)]))
    for item in held:
        if isinstance(item, SpanTree):
            tree = next(trees)
            yield tree.words, tree.tags
        else:
            yield item, None


def checked_words(sentence: Iterable[object], number: int) -> list[str]:
    """Return the words of the sentence with this number as a list; InputError for one that is no word."""
    words = []
    for word in sentence:
        if not isinstance(word, str):
            raise InputError(f"sentence {number}: {word!r} is not a string; give words, not ids")
        if not word:
            raise InputError(f"sentence {number}: one of its words is empty; leave it out")
        words.append(word)
    return words
