"""The hand-written PCFG behind the built-in treebank: a fragment of English with agreement and ambiguity.

A symbol is a Penn label with features after a slash, so `NP/sg` and `NP/obj` are both NP in the gold trees.
"""

import random
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, islice

from simplepcfg.data.trees import SpanTree, TreeBuilder
from simplepcfg.errors import InputError

# A symbol, and what it is written as: weights and children, the alternatives after `|` or on a further line.
SENTENCE_RULES = """
    S            34 NP/sg VP/past | 24 NP/pl VP/past | 12 NP/sg VP/sg | 10 NP/pl VP/pl
    S            6 PP S | 5 RB/open S | 5 SBAR/when S | 4 S CC S
    SBAR/when    1 IN/when S
    SBAR/that    1 IN/that S
    SBAR/who-sg  4 WP VP/past | 2 WP VP/sg | 3 WP S/gap
    SBAR/who-pl  4 WP VP/past | 2 WP VP/pl | 3 WP S/gap
    S/gap        5 NP/sg VBD/object | 4 NP/pl VBD/object
    PP           1 IN NP/place
    PP/to        1 TO NP/obj
    ADJP         3 JJ | 2 RB/degree JJ
"""
NOUN_PHRASE_RULES = """
    NP/sg       50 DT NBAR/sg | 20 NP/full-sg PP | 10 NP/full-sg SBAR/who-sg | 10 NNP | 14 PRP/sg
    NP/pl       36 DT NBAR/pl | 16 NBAR/pl | 20 NP/full-pl PP | 10 NP/full-pl SBAR/who-pl
    NP/pl       10 NP/part CC NP/part | 12 PRP/pl
    NP/obj      30 DT NBAR/sg | 20 DT NBAR/pl | 9 NBAR/pl | 7 NP/full-sg PP | 5 NP/full-pl PP
    NP/obj      4 NP/full-sg SBAR/who-sg | 3 NP/full-pl SBAR/who-pl | 4 NP/part CC NP/part | 9 NNP | 9 PRP/obj
    NP/part     40 DT NBAR/sg | 30 DT NBAR/pl | 15 NBAR/pl | 15 NNP
    NP/full-sg  1 DT NBAR/sg
    NP/full-pl  3 DT NBAR/pl | 1 NBAR/pl
    NP/place    80 DT NBAR/place | 20 NP/place PP
    NBAR/sg     70 NN | 30 JJ NBAR/sg
    NBAR/pl     70 NNS | 30 JJ NBAR/pl
    NBAR/place  80 NN/place | 20 JJ/place NBAR/place
"""
# Only these verb phrases agree with their subject; the past tense does not show number.
AGREEING_VERB_PHRASE_RULES = """
    VP/sg  40 VBZ/have VP/have | 40 VBZ/be ADJP | 20 VBZ/be PP
    VP/pl  40 VBP/have VP/have | 40 VBP/be ADJP | 20 VBP/be PP
"""
# Copied for the past tense and the participle: {form} is the verb phrase's feature, {V} its verb tag.
VERB_PHRASE_RULES = """
    VP/{form}       22 {V}/alone | 42 {V}/object NP/obj | 6 VP/give-{form} PP/to | 8 {V}/clause SBAR/that
    VP/{form}       13 VP/{form} PP | 9 VP/{form} RB | 4 VP/{form} CC VP/{form}
    VP/give-{form}  1 {V}/give NP/obj
"""
# The words of each preterminal, most frequent first.
LEXICON = {
    "DT": "the my your our his their some any",
    "JJ": """
        old young new happy tired quiet clever little tall angry brave lonely famous hungry gentle proud honest
        strange careful lazy noisy polite rich poor sleepy nervous cheerful stubborn curious modest friendly grumpy
        patient serious shy elegant foolish loyal wealthy wise
    """,
    "JJ/place": "large small dark empty beautiful crowded distant ancient wooden narrow dusty modern",
    "NN": """
        teacher dog child doctor farmer cat student king sailor nurse singer lawyer horse painter soldier writer
        neighbour baker friend hunter uncle queen poet pilot driver artist bird waiter actor dancer priest
        rabbit miner judge sister fisherman tailor monkey banker brother clerk goat gardener prince shepherd wolf
        engineer merchant duck butler lion knight janitor aunt librarian editor donkey plumber chemist barber
        cousin goose surgeon princess camel beggar tourist carpenter turtle wizard thief visitor widow pirate
        musician astronaut weaver blacksmith governor mayor orphan otter parrot senator sculptor
    """,
    "NN/place": """
        garden house park city kitchen village river school forest market church station library harbour bridge
        castle street valley hotel office theatre museum field hospital island tower beach cellar palace temple
        courtyard barn lighthouse meadow bakery orchard
    """,
    "NNP": "mary john anna peter susan david laura george emma martin helen oscar julia victor nora felix clara hugo",
    "PRP/sg": "he she it",
    "PRP/pl": "they we",
    "PRP/obj": "him them her us",
    "RB": """
        quickly often slowly here loudly again today quietly alone badly sometimes happily twice
        carefully abroad together
    """,
    "RB/open": "yesterday now perhaps usually suddenly meanwhile finally tonight",
    "RB/degree": "very really too rather quite so",
    "IN": "in near at behind from inside outside around",
    "IN/when": "when because if while although after",
    "IN/that": "that",
    "TO": "to",
    "WP": "who",
    "CC": "and or",
    "VBZ/be": "is",
    "VBP/be": "are",
    "VBZ/have": "has",
    "VBP/have": "have",
}
# Regular verbs by what follows them, so that the past tense is the participle too: visited, has visited.
VERBS = {
    "alone": """
        laughed waited arrived smiled danced complained worked walked coughed shouted travelled whispered
        disappeared snored sneezed wandered vanished hesitated rested cried yawned stumbled
    """,
    "object": """
        liked helped followed loved visited called admired hated chased trusted watched feared remembered greeted
        thanked avoided invited respected recognised praised missed ignored blamed comforted envied protected
        rescued insulted interrupted teased warned noticed consulted scolded
    """,
    "give": "introduced dragged described recommended carried sold compared delivered",
    "clause": "believed hoped claimed suspected imagined insisted doubted agreed noted explained",
}
IRREGULAR_PLURALS = {
    "child": "children",
    "fisherman": "fishermen",
    "wolf": "wolves",
    "goose": "geese",
    "thief": "thieves",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One production; its children are phrase symbols or preterminals."""

    parent: str
    children: tuple[str, ...]
    probability: float


@dataclass(frozen=True, slots=True)
class SyntheticGrammar:
    """A PCFG: productions by parent, and for each preterminal the probabilities of its words."""

    start: str
    rules: Mapping[str, Sequence[Rule]]
    lexicon: Mapping[str, Mapping[str, float]]


@cache
def the_grammar() -> SyntheticGrammar:
    """Return the grammar of the built-in treebank; always the same object."""
    table = SENTENCE_RULES + NOUN_PHRASE_RULES + AGREEING_VERB_PHRASE_RULES
    for form, tag in (("past", "VBD"), ("have", "VBN")):
        table += VERB_PHRASE_RULES.format(form=form, V=tag)
    lexicon = {tag: _zipf(words) for tag, words in LEXICON.items()}
    lexicon["NNS"] = _zipf(" ".join(map(_plural, LEXICON["NN"].split())))
    for frame, verbs in VERBS.items():
        lexicon[f"VBD/{frame}"] = lexicon[f"VBN/{frame}"] = _zipf(verbs)
    return SyntheticGrammar("S", _normalised_rules(table), lexicon)


def _normalised_rules(table: str) -> dict[str, list[Rule]]:
    """Read a table of rules; the weights of one parent are made to sum to one."""
    weighted: dict[str, list[list[str]]] = {}
    for line in filter(str.strip, table.split("\n")):
        parent, alternatives = line.split(maxsplit=1)
        weighted.setdefault(parent, []).extend(alternative.split() for alternative in alternatives.split("|"))
    rules = {}
    for parent, productions in weighted.items():
        total = sum(float(weight) for weight, *_ in productions)
        rules[parent] = [Rule(parent, tuple(children), float(weight) / total) for weight, *children in productions]
    return rules


def _zipf(words: str) -> dict[str, float]:
    """Return probabilities that fall with the rank as in Zipf's and Mandelbrot's law, flattened at the top."""
    weights = {word: 1 / (rank + 5) for rank, word in enumerate(words.split())}
    total = sum(weights.values())
    return {word: weight / total for word, weight in weights.items()}


def _plural(noun: str) -> str:
    """Return the plural: judges, monkeys, princesses, children."""
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    ending = "es" if noun.endswith(("s", "x", "z", "ch", "sh")) else "s"
    return IRREGULAR_PLURALS.get(noun, noun + ending)


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


_END = ""  # on the stack, where a phrase ends
_Choice = tuple[list[float], list[tuple[str, ...]] | list[str]]


def _draw(grammar: SyntheticGrammar, choices: dict[str, _Choice], rng: random.Random) -> SpanTree:
    """Expand leftmost first with an explicit stack."""
    builder = TreeBuilder()
    stack = [grammar.start]
    while stack:
        symbol = stack.pop()
        if symbol == _END:
            builder.close()
            continue
        label = symbol.partition("/")[0]  # gold trees have no features
        cumulative, options = choices[symbol]
        # The last cumulative weight may be a rounding error below 1, hence the upper bound.
        chosen = options[bisect(cumulative, rng.random(), hi=len(options) - 1)]
        if isinstance(chosen, str):
            builder.add_word(label, chosen)
        else:
            builder.open(label)
            stack += [_END, *chosen]
    return builder.finish()
