"""Generate the built-in treebank: sentences of the hand-written grammar with their gold trees."""

import random
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate, islice

from simplepcfg.data.synthetic_grammar import SyntheticGrammar, gold_label, the_grammar
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError


def generate_treebank(sentences: int, seed: int) -> list[SpanTree]:
    """Draw independent sentences with gold trees; a larger treebank of the same seed begins with the smaller one."""
    if sentences < 0:
        raise InputError(f"sentences = {sentences} is negative; ask for 0 or more")
    return list(islice(generate_trees(seed), sentences))


def generate_trees(seed: int, grammar: SyntheticGrammar | None = None) -> Iterator[SpanTree]:
    """Draw gold trees without end; no sentence is rejected, so the grammar's probabilities are exact."""
    grammar = grammar or the_grammar()
    rng = random.Random(seed)
    choices: dict[str, _Choice] = {}
    for parent, rules in grammar.rules.items():
        # Children go on a stack, so that the leftmost must be pushed last.
        options = [tuple(reversed(rule.children)) for rule in rules]
        choices[parent] = (list(accumulate(rule.probability for rule in rules)), options)
    for tag, entry in grammar.lexicon.items():
        choices[tag] = (list(accumulate(entry.values())), list(entry))
    while True:
        yield _draw(grammar, choices, rng)


_Choice = tuple[list[float], list[tuple[str, ...]] | list[str]]


def _draw(grammar: SyntheticGrammar, choices: dict[str, _Choice], rng: random.Random) -> SpanTree:
    """Expand leftmost first with an explicit stack; an integer on it closes the span that it indexes."""
    words: list[str] = []
    tags: list[str] = []
    spans: list[tuple[int, int, str]] = []
    stack: list[str | int] = [grammar.start]
    while stack:
        symbol = stack.pop()
        if isinstance(symbol, int):
            start, _, label = spans[symbol]
            spans[symbol] = (start, len(words), label)
            continue
        cumulative, options = choices[symbol]
        # The last cumulative weight may be a rounding error below 1, hence the upper bound.
        chosen = options[bisect(cumulative, rng.random(), hi=len(options) - 1)]
        if isinstance(chosen, str):
            words.append(chosen)
            tags.append(gold_label(symbol))
        else:
            stack.append(len(spans))
            spans.append((len(words), -1, gold_label(symbol)))
            stack.extend(chosen)
    return SpanTree(tuple(words), tuple(tags), tuple(spans))
