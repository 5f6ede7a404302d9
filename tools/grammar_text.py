"""Text to train the packaged grammars on: one tokenised sentence a line, without punctuation, numbers as N.

    python tools/grammar_text.py french DATA --out build/text/french

DATA holds `novels/*.txt.gz`, `novels_fra/*.txt.gz` and so on (raw text, one paragraph a line, public domain) and, for
English, `wiki/sentences.txt.gz` (tokenised, CC BY-SA 4.0) and `gum/{train,dev}.trees`, of which the words of those
documents are taken that are CC BY. Case is kept: training lower-cases where `data.lowercase` says so.

Written are `train.txt`, distinct sentences of 3 to 40 words in random order, and `valid.txt`: of every novel the last
2 % of its paragraphs. For English, novels are far from what people parse today: of five of their paragraphs four are
taken, Wikipedia and GUM are read three times, `valid.txt` has the words of GUM's development part and one Wikipedia
sentence in thirty, up to 30 words, and `members.txt` is a smaller text for the members of an ensemble. Takes three
minutes for each language but English, which takes ten.

The text of `english-surprisal` keeps punctuation, which suites of sentences are about: half of the novels' sentences,
Wikipedia and GUM twice, and `valid.txt` as for English, up to 40 words.
"""

import argparse
import gzip
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from simplepcfg.data.languages import ENGLISH
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.raw_text import split_raw
from simplepcfg.data.readers import read_trees

Tagged = tuple[Sequence[str], Sequence[str] | None]
SURPRISAL = "english-surprisal"
LONGEST_WITH_PUNCTUATION, REPEATED_WITH_PUNCTUATION = 60, 2
PLAIN = {"''": '"', "``": '"', "“": '"', "”": '"', "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]"}
FOLDERS = {"english": "novels", "french": "novels_fra", "german": "novels_deu", "spanish": "novels_spa"}
CODES = {"english": ENGLISH, "french": "fr", "german": "de", "spanish": "es"}
HELD_OUT_SHARE = 0.02  # of the paragraphs of each novel
HELD_OUT_WIKIPEDIA = 30  # one sentence in so many
SHORTEST, LONGEST, LONGEST_ENGLISH_VALID = 3, 40, 30
FIFTHS_OF_ENGLISH_NOVELS = 4  # so many of five paragraphs are taken
REPEATED, REPEATED_FOR_MEMBERS = 3, 2  # times that English text other than novels is read
NOVELS_FOR_MEMBERS = 8  # one sentence in so many
# Lines of GUM's training trees, half-open, from 0: academic writing, court transcripts, Wikinews interviews, Wikinews.
# gum/LICENSE.txt gives these genres as CC BY; between two genres some lines are left out where the end is not certain.
GUM_CC_BY = ((0, 491), (1143, 1531), (2649, 3515), (3871, 4487))


def main() -> None:
    """Write train.txt and valid.txt of one language."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("language", choices=[*FOLDERS, SURPRISAL])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.language == SURPRISAL:
        with_punctuation(arguments.data, arguments.out)
        return
    training, validation = novels(arguments.data / FOLDERS[arguments.language], CODES[arguments.language])
    texts = {"train.txt": distinct(training, validation)}
    if arguments.language == "english":
        others, validation = wikipedia_and_gum(arguments.data)
        fiction, others = distinct(training, validation), distinct(others, validation)
        texts["train.txt"] = fiction + REPEATED * others
        texts["members.txt"] = fiction[::NOVELS_FOR_MEMBERS] + REPEATED_FOR_MEMBERS * others
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, lines in texts.items():
        random.Random(0).shuffle(lines)
        write(arguments.out / name, lines)
    write(arguments.out / "valid.txt", [line for line in validation if length(line) > 1])


def with_punctuation(data: Path, out: Path) -> None:
    """Write train.txt and valid.txt of English with punctuation."""
    preprocessing = Preprocessing(lowercase=False, punctuation="keep", tokenize=True)

    def line(words: Sequence[str]) -> str:
        return " ".join(PLAIN.get(token, token) for token in preprocessing.apply(words).tokens)

    def kept(lines: Iterable[str]) -> list[str]:
        return [one for one in dict.fromkeys(lines) if SHORTEST <= length(one) <= LONGEST_WITH_PUNCTUATION]

    parts: dict[int, list[str]] = {0: [], 1: [], 3: []}  # by the number of the paragraph, modulo 5
    for path in sorted((data / FOLDERS["english"]).glob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, text in enumerate(lines):
                if number % 5 in parts:
                    parts[number % 5] += map(line, split_raw(text.replace("’", "'")))
    sentences, held_out = ([line(words) for words, _ in part] for part in other_english(data))
    unseen = set(held_out)
    fiction = kept([*parts[0], *parts[1], *parts[3][::2]])
    training = [one for one in fiction + REPEATED_WITH_PUNCTUATION * kept(sentences) if one not in unseen]
    random.Random(0).shuffle(training)
    out.mkdir(parents=True, exist_ok=True)
    write(out / "train.txt", training)
    write(out / "valid.txt", [one for one in held_out if 2 <= length(one) <= LONGEST])


def distinct(lines: list[str], unseen: list[str]) -> list[str]:
    """Return lines of the right length that are not in `unseen`, each once."""
    kept = sorted(line for line in set(lines).difference(unseen) if SHORTEST <= length(line) <= LONGEST)
    random.Random(0).shuffle(kept)
    return kept


def write(path: Path, lines: list[str]) -> None:
    """Write lines and say how many they are."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{path.name}: {len(lines):,} sentences, {sum(map(length, lines)):,} words", flush=True)


def novels(folder: Path, language: str) -> tuple[list[str], list[str]]:
    """Return the sentences of all novels, those of the end of each apart."""
    training: list[str] = []
    validation: list[str] = []
    preprocessing = Preprocessing(lowercase=False, tokenize=True, language=language)  # type: ignore[arg-type]
    paths = sorted(folder.glob("*.txt.gz"))
    if not paths:
        raise SystemExit(f"{folder}: no novels")
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            paragraphs = [
                line for n, line in enumerate(lines) if language != ENGLISH or n % 5 < FIFTHS_OF_ENGLISH_NOVELS
            ]
        held_out = len(paragraphs) - int(HELD_OUT_SHARE * len(paragraphs))
        for part, chosen in (training, paragraphs[:held_out]), (validation, paragraphs[held_out:]):
            part += (
                " ".join(preprocessing.apply(words).tokens) for text in chosen for words in split_raw(text, language)
            )
    return training, validation


def wikipedia_and_gum(data: Path) -> tuple[list[str], list[str]]:
    """Return the other English sentences, and those for validation."""
    preprocessing = Preprocessing(lowercase=False, tokenize=True)
    training, validation = (
        [" ".join(preprocessing.apply(*one).tokens) for one in part] for part in other_english(data)
    )
    return training, [line for line in validation if length(line) <= LONGEST_ENGLISH_VALID]


def other_english(data: Path) -> tuple[list[Tagged], list[Tagged]]:
    """Return words and, of GUM, tags of sentences from Wikipedia and GUM, and of those for validation."""
    with gzip.open(data / "wiki" / "sentences.txt.gz", "rt", encoding="utf-8") as lines:
        wikipedia: list[Tagged] = [(line.split(), None) for line in lines]
    training = [sentence for n, sentence in enumerate(wikipedia) if n % HELD_OUT_WIKIPEDIA]
    trees = list(read_trees(data / "gum" / "train.trees"))
    training += [(tree.words, tree.tags) for start, end in GUM_CC_BY for tree in trees[start:end]]
    validation = wikipedia[::HELD_OUT_WIKIPEDIA]
    return training, validation + [(tree.words, tree.tags) for tree in read_trees(data / "gum" / "dev.trees")]


def length(line: str) -> int:
    """Return the number of words of a line."""
    return line.count(" ") + 1 if line else 0


if __name__ == "__main__":
    main()
