"""Train the grammar `english` that comes with the package, from text that may be redistributed in this form.

    python tools/train_english.py text DATA --out build/english-text
    python tools/train_english.py train build/english-text --out runs/english
    python tools/pack_grammar.py runs/english src/simplepcfg/pretrained/english --card card.md --tokenize
    python tools/train_english.py spelling build/english-text --out src/simplepcfg/pretrained/english

The last step is for a grammar that was trained before runs had spellings. DATA holds `novels/*.txt.gz` (raw text, one
paragraph a line, public domain), `wiki/sentences.txt.gz` (tokenised, CC BY-SA 4.0) and `gum/{train,dev}.trees`, of
which the words of those documents are taken that are CC BY. Training takes two minutes on an H200.
"""

import argparse
import gzip
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.raw_text import split_raw
from simplepcfg.data.readers import read_trees
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.runs.tensor_files import write_tensor_file
from simplepcfg.training.reporting.reporters import make_reporter
from simplepcfg.training.start import train

# Lines of GUM's training trees, half-open, from 0: academic writing, court transcripts, Wikinews interviews, Wikinews.
# gum/LICENSE.txt gives these genres as CC BY; between two genres some lines are left out where the end is not certain.
GUM_CC_BY = ((0, 491), (1143, 1531), (2649, 3515), (3871, 4487))
EVERY_PARAGRAPH = 5  # of each novel one paragraph in so many is taken, so that all 99 are heard
SHORTEST, LONGEST, LONGEST_VALID = 4, 30, 30
HELD_OUT = 30  # one Wikipedia sentence in so many is held out

CONFIG = "sn-pcfg"
SETTINGS = [
    'name="english"',
    f"data.max_length={LONGEST}",
    "data.vocabulary_size=15000",
    "model.nonterminals=1024",
    "model.preterminals=1024",
    "model.embedding=256",
    "training.weight_decay_per_epoch=0",
    "training.weight_decay=0.08",
]

PREPROCESSING = Preprocessing()


def novels(data: Path) -> Iterator[list[str]]:
    """Some paragraphs of each novel, split into sentences and words."""
    for path in sorted((data / "novels").glob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if number % EVERY_PARAGRAPH == 0:
                    yield from split_raw(line)


def wikipedia(data: Path) -> Iterator[list[str]]:
    """Sentences that are tokenised already."""
    with gzip.open(data / "wiki" / "sentences.txt.gz", "rt", encoding="utf-8") as lines:
        yield from (line.split() for line in lines)


def prepared(words: list[str], tags: tuple[str, ...] | None = None) -> list[str]:
    """What the model sees of a sentence."""
    plain = [word.replace("’", "'") for word in words]
    return PREPROCESSING.apply(plain, tags).tokens


def write_text(data: Path, out: Path) -> None:
    """train.txt and valid.txt, one prepared sentence a line."""
    training: list[list[str]] = [prepared(words) for words in novels(data)]
    validation: list[list[str]] = []
    for number, words in enumerate(wikipedia(data)):
        (training if number % HELD_OUT else validation).append(prepared(words))
    trees = list(read_trees(data / "gum" / "train.trees"))
    for start, end in GUM_CC_BY:
        training += [prepared(list(tree.words), tree.tags) for tree in trees[start:end]]
    validation += [prepared(list(tree.words), tree.tags) for tree in read_trees(data / "gum" / "dev.trees")]
    seen: set[tuple[str, ...]] = set()
    kept = []
    for tokens in training:
        if SHORTEST <= len(tokens) <= LONGEST and tuple(tokens) not in seen:
            seen.add(tuple(tokens))
            kept.append(tokens)
    random.Random(0).shuffle(kept)
    out.mkdir(parents=True, exist_ok=True)
    for name, sentences in (
        ("train.txt", kept),
        ("valid.txt", [tokens for tokens in validation if 2 <= len(tokens) <= LONGEST_VALID]),
    ):
        text = "".join(" ".join(tokens) + "\n" for tokens in sentences)
        (out / name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(sentences):,} sentences, {sum(map(len, sentences)):,} words")


def write_spelling(text: Path, grammar: Path) -> None:
    """Add the spellings of unknown words to a grammar that was packed without them."""
    counts = Counter((text / "train.txt").read_text("utf-8").split())
    folder = RunFolder(grammar)
    model = SpellingModel.of_unknown_words(counts, Vocabulary.load(folder.vocabulary))
    write_tensor_file(folder.spelling, model.to_tensors(), {})
    print(f"{folder.spelling}: {folder.spelling.stat().st_size / 1e3:.0f} kB")


def main() -> None:
    """One of the steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("step", choices=("text", "train", "spelling"))
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    if arguments.step == "text":
        write_text(arguments.source, arguments.out)
        return
    if arguments.step == "spelling":
        write_spelling(arguments.source, arguments.out)
        return
    files = [f'data.train="{arguments.source / "train.txt"}"', f'data.valid="{arguments.source / "valid.txt"}"']
    settings = [*SETTINGS, *files, f"seed={arguments.seed}"]
    settings += arguments.settings
    train(load_config(CONFIG, settings), arguments.out, reporter=make_reporter())


if __name__ == "__main__":
    main()
