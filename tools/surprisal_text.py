"""Text for language models whose surprisals are tested: one million words of three kinds, and twelve million words.

    python tools/surprisal_text.py DATA --out build/surprisal-text

DATA holds `novels/*.txt.gz` (raw text, one paragraph a line), `wiki/sentences.txt.gz` (tokenised) and
`gum/{train,dev}.trees`. Written are `large.txt` (all novels but three, Wikipedia and GUM), `million.txt` (Wikipedia,
GUM and as many paragraphs of the novels as make a million words), `valid.txt` (GUM's development part, one Wikipedia
sentence in thirty, and one paragraph of the novels in two hundred) and `novels.txt`, the three novels that are held
out. Sentences keep case and punctuation, and no line is in two files. Takes ten minutes.
"""

import argparse
import gzip
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from grammar_text import length, write

from simplepcfg.data.raw_text import split_raw
from simplepcfg.data.readers import read_trees

HELD_OUT_NOVELS = ("ENG18600_Clive", "ENG18820_Anstey", "ENG19100_Forster")
WIKIPEDIA_IN_VALID, PARAGRAPHS_IN_VALID = 30, 200  # one in so many
SHORTEST, LONGEST = 3, 60
MILLION = 1_000_000


def main() -> None:
    """Write the four files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    paths = sorted((arguments.data / "novels").glob("*.txt.gz"))
    held_out = [path for path in paths if path.name.removesuffix(".txt.gz") in HELD_OUT_NOVELS]
    if len(held_out) != len(HELD_OUT_NOVELS):
        parser.error(f"{arguments.data}/novels lacks one of {', '.join(HELD_OUT_NOVELS)}")
    novels, valid = [], []
    for number, paragraph in enumerate(paragraphs(path for path in paths if path not in held_out)):
        (novels if number % PARAGRAPHS_IN_VALID else valid).append(paragraph)
    other: list[list[str]] = []
    for number, line in enumerate(wikipedia(arguments.data)):
        (other if number % WIKIPEDIA_IN_VALID else valid).append([line])
    other += [[line] for line in gum(arguments.data, "train")]
    valid += [[line] for line in gum(arguments.data, "dev")]
    unseen = set(flat(valid)) | set(flat(paragraphs(held_out)))
    draw = random.Random(0)
    draw.shuffle(novels)
    write(arguments.out / "valid.txt", flat(valid))
    write(arguments.out / "novels.txt", flat(paragraphs(held_out)))
    write(arguments.out / "large.txt", shuffled(draw, unseen, flat(other), flat(novels)))
    wanted = MILLION - sum(length(line) for line in flat(other) if line not in unseen)
    write(arguments.out / "million.txt", shuffled(draw, unseen, flat(other), first_words(flat(novels), wanted)))


def paragraphs(paths: Iterable[Path]) -> Iterator[list[str]]:
    """Yield the sentences of each paragraph, tokenised, of three to sixty tokens."""
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield [" ".join(words) for words in split_raw(line.replace("’", "'")) if is_kept(words)]


def wikipedia(data: Path) -> Iterator[str]:
    """Yield the sentences of Wikipedia, which are tokenised already."""
    with gzip.open(data / "wiki" / "sentences.txt.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if is_kept(words):
                yield " ".join(words)


def gum(data: Path, part: str) -> Iterator[str]:
    """Yield the words of GUM's trees."""
    for tree in read_trees(data / "gum" / f"{part}.trees"):
        if is_kept(tree.words):
            yield " ".join(tree.words)


def is_kept(words: Iterable[str]) -> bool:
    """Return whether a sentence is neither too short nor too long."""
    return SHORTEST <= len(list(words)) <= LONGEST


def flat(groups: Iterable[list[str]]) -> list[str]:
    """Return all lines of all groups."""
    return [line for group in groups for line in group]


def first_words(lines: Iterable[str], wanted: int) -> Iterator[str]:
    """Yield lines until there are as many words as wanted."""
    for line in lines:
        if wanted <= 0:
            return
        wanted -= length(line)
        yield line


def shuffled(draw: random.Random, unseen: set[str], *parts: Iterable[str]) -> list[str]:
    """Return all lines in random order, but for those that are held out."""
    lines = [line for part in parts for line in part if line not in unseen]
    draw.shuffle(lines)
    return lines


if __name__ == "__main__":
    main()
