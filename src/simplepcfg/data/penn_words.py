"""Words and punctuation of a sentence by the conventions of the Penn Treebank, as substrings of the sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator

# One character each, so that the words found in text with typewriter apostrophes have the lengths of those written.
_APOSTROPHES = str.maketrans({"’": "'", "ʼ": "'", "＇": "'"})

# What may stand between the last period and the end: a quotation mark after a space opens, and does not close.
_CLOSING = r"""(?:[])}>»”\s]|(?<!\ )"|'(?!(?<=\ ')'))*"""
# The end of the sentence, or a dash or an ellipsis: a period before one of these is not part of a word, either.
_END = r"(?:\Z|[—―…]|--|–\s|(?<=\s)–)"
_LAST_PERIOD = rf"\.(?={_CLOSING}{_END})"

# Addresses of pages and of e-mail, without the punctuation after them: one word each, in every language.
_NOT_IN_ADDRESS = r"\s<>\"“”«»'"
ADDRESS = (
    rf"(?:https?://|(?<!\w)www\.)[^{_NOT_IN_ADDRESS}]*[^{_NOT_IN_ADDRESS}.,:;!?’()\[\]{{}}…]"
    r"|(?<![\w.+-])[\w+][\w.+-]*@[\w-]+(?:\.[\w-]+)+"
)

_ADDRESS = re.compile(ADDRESS)
_MAY_HAVE_ADDRESSES = re.compile("@|://|www", re.IGNORECASE)
_CHUNK = re.compile(
    rf"""
      [^\W_]+(?=\ )                  # the most frequent case first: letters and digits before a space
    | (?: [^]\s!"#$%&()*;<>?@[{{}}«»‒–—―‘“”„…`'.,:¢£¤¥€₤₩₫₹₽-]+
        | '(?!')                     # it’s; clitics and quotation marks are found by _APOSTROPHE_CUT
        | (?<!--)-(?!-)              # well-known
        | [,:](?=\d)                 # 1,000 and 10:30
        | (?!\.\.)(?:(?<=[^\W_]\.[^\W\d_])|(?!{_LAST_PERIOD}))\.  # U.S. and 3.14
      )+
    | ``|''|--|\.\.+
    | \S                             # any other punctuation, one character each
    """,
    re.VERBOSE,
)

_CHUNK_OR_ADDRESS = re.compile(f"{ADDRESS}|{_CHUNK.pattern}", re.VERBOSE)

_LETTER = r"\w\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"  # with combining marks
_OPENED = rf"(?=[{_LETTER}])(?!(?i:re|ve|ll|[dmnst])(?![{_LETTER}]))"  # a word after a quotation mark, no clitic
_APOSTROPHE_CUT = re.compile(
    rf"""
      (?<=[^{_LETTER}])(?='{_OPENED})                      # either side of a quotation mark that opens
    | (?:(?<=\A')|(?<=[^{_LETTER}]')){_OPENED}
    | (?<=[^'])                                            # before the clitics and the apostrophe at the end
      (?=(?:(?:'(?:ll|LL|re|RE|ve|VE)|n't|N'T)(?:'[dDmMsS])?'?|'[dDmMsS]'?|')\Z)
    """,
    re.VERBOSE,
)

_JOINED = [pair.split() for pair in ("can not", "d 'ye", "gim me", "gon na", "got ta", "lem me", "more 'n", "wan na")]
_MAY_BE_JOINED = re.compile("|".join(map("".join, _JOINED)), re.IGNORECASE)
# wanna is parted only at the end of a chunk: wanna-be is a word.
_TWO_WORDS = re.compile(
    rf"\b(?!wanna(?!\Z))({'|'.join(f'{first}(?={second})' for first, second in _JOINED)})"
    rf"({'|'.join(dict.fromkeys(second for _, second in _JOINED))})\b",
    re.IGNORECASE,
)


def tokenize(sentence: str) -> list[str]:
    """Split a sentence into words and punctuation by Penn's conventions, each as it is written.

    The words are those of NLTK's `NLTKWordTokenizer` for each part between dashes and ellipses, with these differences,
    where NLTK's depend on the order of its substitutions or on its tables of characters:

    - commas and colons in a row are one word each (in NLTK `a,,b` is `a`, `,` and `,b`);
    - 's, 'm and 'd are words before an apostrophe, too, whatever follows (in NLTK `Paul's')` has the word `Paul's`);
    - 'tis after a word such as `cannot` is one word (`cannot'tis`);
    - ½, ² and the like are digits (in NLTK `'½` is one word), and combining marks of scripts other than Latin, Greek
      and Cyrillic are punctuation where an apostrophe follows;
    - signs of all currencies are words, as `$` is (in NLTK `€5` is one word);
    - addresses such as `https://a.org/?b` and `me@a.org` are one word (in NLTK `https`, `:` and `//a.org/` and so on);
    - at the end of a sentence `U.S.` and `Ph.D.` are as in its middle (in NLTK `U.S` and `.`);
    - all white space is the same (in NLTK a period before a tab and a quotation mark is not the last of a sentence).

        tokenize("“I can’t,” he said.")  # ["“", "I", "ca", "n’t", ",", "”", "he", "said", "."]
    """
    plain = sentence if sentence.isascii() else plain_apostrophes(sentence)
    addresses = _ADDRESS.findall(plain) if _MAY_HAVE_ADDRESSES.search(plain) else ()
    words = (_CHUNK_OR_ADDRESS if addresses else _CHUNK).findall(plain)
    if "'" in plain:
        words = [word for chunk in words for word in (_APOSTROPHE_CUT.split(chunk) if "'" in chunk else (chunk,))]
    if _MAY_BE_JOINED.search(plain):
        words = [word for chunk in words for word in ((chunk,) if chunk in addresses else _two_words(chunk))]
    return words if plain == sentence else list(as_written(words, sentence))


def plain_apostrophes(word: str) -> str:
    """Return a word with typewriter apostrophes ('), as training text and models write it."""
    return word.translate(_APOSTROPHES)


def _two_words(chunk: str) -> Iterator[str]:
    """Split `cannot` into `can` and `not`, also within a compound; return any other word as it is."""
    place = 0
    for match in _TWO_WORDS.finditer(chunk):
        yield from filter(None, (chunk[place : match.start()], match[1], match[2]))
        place = match.end()
    if place < len(chunk):
        yield chunk[place:]


def as_written(words: list[str], sentence: str) -> Iterator[str]:
    """Yield the words with the sentence's own apostrophes: no character is lost but white space."""
    rest, place = "".join(sentence.split()), 0
    for word in words:
        yield rest[place : place + len(word)]
        place += len(word)
