"""The words of the built-in treebank: one list a class, most frequent first, with the inflections they need."""

DETERMINERS = "the my your our his their some any"
ADJECTIVES = """
    old young new happy tired quiet clever little tall angry brave lonely famous hungry gentle proud honest
    strange careful lazy noisy polite rich poor sleepy nervous cheerful stubborn curious modest friendly grumpy
    patient serious shy elegant foolish loyal wealthy wise
"""
PLACE_ADJECTIVES = "large small dark empty beautiful crowded distant ancient wooden narrow dusty modern"
NOUNS = """
    teacher dog child doctor farmer cat student king sailor nurse singer lawyer horse painter soldier writer
    neighbour baker friend hunter uncle queen poet pilot driver artist bird waiter actor dancer priest
    rabbit miner judge sister fisherman tailor monkey banker brother clerk goat gardener prince shepherd wolf
    engineer merchant duck butler lion knight janitor aunt librarian editor donkey plumber chemist barber
    cousin goose surgeon princess camel beggar tourist carpenter turtle wizard thief visitor widow pirate
    musician astronaut weaver blacksmith governor mayor orphan otter parrot senator sculptor
"""
PLACES = """
    garden house park city kitchen village river school forest market church station library harbour bridge
    castle street valley hotel office theatre museum field hospital island tower beach cellar palace temple
    courtyard barn lighthouse meadow bakery orchard
"""
NAMES = "mary john anna peter susan david laura george emma martin helen oscar julia victor nora felix clara hugo"
SINGULAR_PRONOUNS = "he she it"
PLURAL_PRONOUNS = "they we"
OBJECT_PRONOUNS = "him them her us"
# Regular verbs, so that the past tense is the participle too: visited, has visited.
INTRANSITIVE_VERBS = """
    laughed waited arrived smiled danced complained worked walked coughed shouted travelled whispered
    disappeared snored sneezed wandered vanished hesitated rested cried yawned stumbled
"""
TRANSITIVE_VERBS = """
    liked helped followed loved visited called admired hated chased trusted watched feared remembered greeted
    thanked avoided invited respected recognised praised missed ignored blamed comforted envied protected
    rescued insulted interrupted teased warned noticed consulted scolded
"""
TRANSFER_VERBS = "introduced dragged described recommended carried sold compared delivered"
CLAUSE_VERBS = "believed hoped claimed suspected imagined insisted doubted agreed noted explained"
LOCATIVE_PREPOSITIONS = "in near at behind from inside outside around"
MANNER_ADVERBS = """
    quickly often slowly here loudly again today quietly alone badly sometimes happily twice
    carefully abroad together
"""
OPENING_ADVERBS = "yesterday now perhaps usually suddenly meanwhile finally tonight"
DEGREE_ADVERBS = "very really too rather quite so"
SUBORDINATORS = "when because if while although after"

IRREGULAR_PLURALS = {
    "child": "children",
    "fisherman": "fishermen",
    "wolf": "wolves",
    "goose": "geese",
    "thief": "thieves",
}


def plural(noun: str) -> str:
    """Return the plural of a noun of the lexicon."""
    return IRREGULAR_PLURALS.get(noun) or with_s(noun)


def with_s(stem: str) -> str:
    """Return a regular plural: judge -> judges, monkey -> monkeys, princess -> princesses."""
    if stem.endswith("y") and stem[-2] not in "aeiou":
        return stem[:-1] + "ies"
    if stem.endswith(("s", "x", "z", "ch", "sh")):
        return stem + "es"
    return stem + "s"
