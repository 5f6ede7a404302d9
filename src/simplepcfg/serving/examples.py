"""Sentences that the page offers: ambiguous or telling ones, as far as a run knows their words."""

from __future__ import annotations

from simplepcfg.inference.run import Run

FEWEST, MOST = 3, 5
SENTENCES = (
    "she saw the girl with the telescope",
    "he fed her cat food",
    "time flies like an arrow",
    "the man with the dog saw the boy on the hill",
    "I can't believe it's over.",
    "my old dog followed the cat in the garden",
    "the old man sees a dog near the river",
    "a girl gave the book to her friend",
)


def examples_of(run: Run) -> list[str]:
    """Return sentences whose words the run knows, the first of which the page opens with.

    A run that knows few of them, such as one of another language, has sentences that it makes itself.
    """
    fitting = [text for text in SENTENCES if _knows(run, text)]
    if len(fitting) < FEWEST and run.shares_rules:
        drawn = run.sample(4 * FEWEST, max_length=12, seed=1).trees
        fitting += [" ".join(one.tree.words) for one in drawn if len(one.tree.words) > 3]
        return fitting[:FEWEST]
    return fitting[:MOST]


def _knows(run: Run, sentence: str) -> bool:
    """Return whether the run knows all words but one: an unknown word has a class of its own, and may be shown."""
    tokens = run.preprocessing.apply(run.preprocessing.split(sentence)).tokens
    return sum(not run.vocabulary.knows(token) for token in tokens) <= 1
