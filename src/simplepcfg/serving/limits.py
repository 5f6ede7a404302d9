"""Limits on how much one request may ask for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that a request may not exceed."""

    words: int = 80  # of a sentence
    characters: int = 4000  # of a sentence
    body_bytes: int = 1 << 16
    trees: int = 20  # k of k_best, samples of sample_trees
    next_words: int = 50
    waiting: int = 512  # requests of all clients at once
