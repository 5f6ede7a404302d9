"""Penn-style words: as they are written, and the same as those of NLTK's tokeniser."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.treebank import TreebankWordDetokenizer

from simplepcfg.data.penn_words import plain_apostrophes, tokenize
from tiny_runs import tiny_sentences

# Where tokenize() differs by intention: its documentation says how.
DIFFERENT = re.compile(
    r"[,:][,:]|'[dms]'(?![\w'])|(?:not|me|na|ta|'n|'ye)'t(?:is|was)|[¢£¤¥€₤₩₫₹₽]|://|@\w"
    r"|[^\W_]\.[^\W\d_]\.(?:[])}>»”\"'\s]*(?:\Z|[—―…]|--|–))",
    re.IGNORECASE,
)
DASHES = re.compile(r"(—+|―+|–(?=\s)|(?<=\s)–|…|--+)")
CLITICS = ["n't", "'s", "'ll", "'re", "'ve", "'d", "'m", "'em", "'n", "'90s", "'tis", "'twas"]
CONTRACTIONS = ["cannot", "gonna", "gotta", "gimme", "lemme", "wanna", "d'ye", "more'n"]
# Each is tried as it stands, in capitals and with the other apostrophe; alone, and with words around.
HARD = [
    *CLITICS,
    *CONTRACTIONS,
    *(f"{stem}{clitic}" for stem in ("do", "x-", "Paul", "5", "é", "a.") for clitic in CLITICS),
    *(
        f"{before}{word}{after}"
        for word in CONTRACTIONS
        for before, after in (("", "."), ("(", ")"), ("x-", "-y"), ("", "'s"))
    ),
    "shouldn't've he'd've y'all'd've can't's rock'n'roll o'clock O'Neil l'amour x'y 5'6\"",
    "the dogs' the dogs', (the dogs') 'the dogs' ''the dogs'' 'I' 'a' 'It's so'",
    "'Go.' \"Go.\" “Go.” ‘Go.’ ``Go.'' «Go.» „Go.“ (Go.) [Go.] {Go.} <Go.> `Go.'",
    *(
        "Go.'",
        'Go."',
        "Go.”",
        "Go.’",
        "Go.''",
        "Go.»",
        "Go.)",
        "Go.]",
        "Go.' \"",
        'Go. "',
        "Go. '",
        "Go. ''",
        "Go.)).'",
    ),
    *(
        "Go.—",
        "Go. – no",
        "Go.–no",
        "Go.--",
        "Go.…",
        "Go….",
        "Go....",
        "Go. . .",
        "Go..",
        "Go.*",
        "Go.,",
        "Go.;",
        "Go.?",
    ),
    *("U.S. a", "U.S., x", "e.g., x", "p.m.;", "Ph.D.'s", "a.b.c", ".5", ".", "..", "...", ".'", '."', ".)."),
    *(
        "10:30",
        "1,000.50",
        "1,000,",
        "a,5",
        "a, 5",
        ",5",
        "5,x",
        "x:5",
        "x: 5",
        "x:",
        "x,",
        "٣,٣",
        "$5",
        "5%",
        "#5",
    ),
    "well-known a - b a--b a---b ---- -----x —a— ―― 1990–1995 a – b a –b a– b -a- --a-- ‐a‑b a−b a‒b",
    "example.com/a?b=1&c=2,3. @ #tag R&B a/b a_b a=b+c ~x^y|z\\w <b>x</b>",
    "Why?! What?? No!!! (a) [b] {c} <d> *e* **f** ;;; @@ && %% ##",
    "''' '''' ''''' a'''s ```a ```` `a' \"\" \"'I'\" '\"I\"' ( ' ) '.' ' . '",
    "naïve nai\u0308ve' 'e\u0301te\u0301' e\u0301's Ünïcode 漢字。'漢字' «да» שלום 한국어 \u200b'x 🙂's",
    "a\u00a0b a\u2009b\u00a0",
    *("", " ", "  a  b  ", "'", '"', "’", "‘", "—", "!?.,;:"),
]


def nltk_words(sentence: str) -> Iterator[str]:
    """The words of NLTK for each part between dashes; it writes quotation marks anew, so each word is looked up."""
    for part in filter(None, DASHES.split(sentence)):
        plain, place = plain_apostrophes(part), 0
        for word in NLTKWordTokenizer().tokenize(plain):
            while plain[place].isspace():
                place += 1
            quotes = ['"', "''"] if word in ("``", "''") else []
            written = next(form for form in (word, *quotes) if plain.startswith(form, place))
            yield part[place : place + len(written)]
            place += len(written)
        assert not plain[place:].strip()


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("The old dog slept by the fire.", "The old dog slept by the fire ."),
        ("I don’t—can’t—go,", "I do n’t — ca n’t — go ,"),
        ('He said "no" (twice).', 'He said " no " ( twice ) .'),
        ("It costs $5.50, or 10%.", "It costs $ 5.50 , or 10 % ."),
        ("€5, £3.50 or 10€?", "€ 5 , £ 3.50 or 10 € ?"),
        ("the dog 's bone is n't here .", "the dog 's bone is n't here ."),
        ("``Well,'' she said--and left…", "`` Well , '' she said -- and left …"),
        ("He said, ''tis good; (''no, sir.'')", "He said , '' tis good ; ( '' no , sir . '' )"),
        ("naïve Ünïcode 漢字", "naïve Ünïcode 漢字"),
        ("I cannot, Dʼye want more’n that?", "I can not , D ʼye want more ’n that ?"),
        ("a,,b ('St. Paul's') '½ 'x\t'", "a , , b ( ' St. Paul 's ' ) ' ½ ' x '"),
        ("In the U.S. he has a Ph.D. (in the U.S.)", "In the U.S. he has a Ph.D. ( in the U.S. )"),
        ("It was 5 p.m.” He went. In A.", "It was 5 p.m. ” He went. In A ."),
        (
            "(https://a.org/b?c=d,e.) Can't 'www.a.org/cannot', me@a-b.org.",
            "( https://a.org/b?c=d,e . ) Ca n't ' www.a.org/cannot ' , me@a-b.org .",
        ),
        ("", ""),
    ],
)
def test_words_are_as_written(sentence: str, words: str) -> None:
    assert tokenize(sentence) == words.split()


@pytest.mark.parametrize("text", HARD)
def test_hard_cases_are_as_in_nltk(text: str) -> None:
    for form in (text, text.upper(), text.replace("'", "’")):
        for sentence in (form, f"{form} x", f"x {form}", f"“{form}”", f"({form})", f"Ah, {form}!", f"x—{form}—y"):
            assert not DIFFERENT.search(plain_apostrophes(sentence)), sentence
            assert tokenize(sentence) == [*nltk_words(sentence)], sentence


@settings(max_examples=1000, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*"aIstdm90_éñ漢\u0301'’\"“”‘`()[]{}<>«».,:;!?-—–…*&@#$%/= ", " ", " ", *CLITICS, *CONTRACTIONS]
        )
    )
)
@example(["a", ".", " ", "'", "'"])
def test_random_text_is_as_in_nltk(parts: list[str]) -> None:
    text = "".join(parts)
    assume(not DIFFERENT.search(plain_apostrophes(text)))
    assert tokenize(text) == [*nltk_words(text)]


@settings(max_examples=100, deadline=None)
@given(st.text())
@example("''bye''.\x1e' ")
def test_no_character_is_lost(text: str) -> None:
    assert "".join(tokenize(text)) == "".join(text.split())
    assert not any(re.search(r"\s", word) or not word for word in tokenize(text))


def test_sentences_of_the_built_in_treebank_are_as_in_nltk() -> None:
    join = TreebankWordDetokenizer().detokenize
    for sentence in tiny_sentences(200, seed=1):
        written = join([*sentence.split(), "."])
        assert tokenize(written) == [*nltk_words(written)] == [*sentence.split(), "."]
