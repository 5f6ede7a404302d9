"""Counts of the character n-grams of a list of words, and probabilities by Witten-Bell smoothing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

ORDER = 5  # characters of the longest n-gram, the predicted one included
EDGE = "\n"  # stands before and after the characters of a word; no word contains it


class CharacterNgrams:
    """How often each character follows each context of up to `ORDER` − 1 characters in a list of words.

    The contexts of a length are numbered by those that are a character shorter, as the nodes of a trie are.
    """

    def __init__(self, words: Iterable[str]) -> None:
        edges = EDGE * (ORDER - 1)
        text = edges + "".join(word + edges for word in words)
        characters = np.frombuffer(text.encode("utf-32-le"), dtype="<u4").astype(np.int64)
        alphabet = np.flatnonzero(np.bincount(characters))
        numbers = np.zeros(alphabet.max(initial=0) + 1, dtype=np.int64)
        numbers[alphabet] = np.arange(len(alphabet))
        ids = numbers[characters]
        self._ids = {chr(character): number for number, character in enumerate(alphabet.tolist())}
        is_edge = characters == ord(EDGE)
        places = np.flatnonzero(~is_edge[ORDER - 1 :] | ~is_edge[ORDER - 2 : -1]) + ORDER - 1
        last, nodes = ids[places], np.zeros(len(places), dtype=np.int64)
        # One order of all contexts, by their nearest character first, is an order of the shorter ones, too.
        before = [ids[places - length] for length in range(1, ORDER)]
        fits = len(self._ids) ** len(before) < 2**63
        order = reduce(self._key, before).argsort() if fits else np.lexsort(before[::-1])
        self._contexts, self._followers = [], []
        for length in range(ORDER):
            if length:
                keys = self._key(nodes[order], before[length - 1][order])
                is_new = np.diff(keys, prepend=-1) > 0
                self._contexts.append(keys[is_new])
                nodes[order] = is_new.cumsum() - 1
            followers, counts = np.unique(self._key(nodes, last), return_counts=True)
            parents = followers // max(len(self._ids), 1)
            self._followers.append((followers, counts, np.bincount(parents, counts), np.bincount(parents)))

    def probability(self, character: str, context: str, lower: float, shortest: int = 0) -> float:
        """Return P(character | context), in which contexts from the `shortest` to all of `context` are interpolated.

        `lower` is the probability of the character in a poorer model. Contexts that were never seen say nothing.
        """
        node = 0
        for length in range(len(context) + 1):
            if length:
                place = self._find(self._contexts[length - 1], node, context[-length])
                if place is None:
                    break
                node = place
            if length >= shortest and len(self._followers[length][0]):
                followers, counts, totals, types = self._followers[length]
                place = self._find(followers, node, character)
                count = 0 if place is None else counts[place]
                lower = float((count + types[node] * lower) / (totals[node] + types[node]))
        return lower

    def _key(self, nodes: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return nodes * len(self._ids) + ids

    def _find(self, keys: NDArray[np.int64], node: int, character: str) -> int | None:
        """Return the place of a node's child in the sorted keys, or None."""
        number = self._ids.get(character)
        if number is None:
            return None
        key = node * len(self._ids) + number
        place = int(keys.searchsorted(key))
        return place if place < len(keys) and keys[place] == key else None
