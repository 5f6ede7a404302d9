"""What the spelling of unknown words changes: misspellings, minimal pairs and suites, with and without it.

    python benchmarks/unknown_words.py MODEL ... --text TEXT [--misspellings 1000]
        [--blimp FOLDER --pairs 21] [--syntaxgym FOLDER --items 8]

MODEL is a run, an installed grammar, or the file of an n-gram model or LSTM. Each question is asked twice: with a
closed vocabulary, in which every unknown word is `<unk>`, and with spellings.

A misspelling is a sentence of TEXT (one a line) in which one letter of a known word of four letters or more is
replaced, left out, doubled or exchanged with the next, so that no known word comes out; it is right if the sentence
becomes less probable. Of minimal pairs and of suites the first `--pairs` and `--items` of each file are taken; the mean
over files stands beside that over items without unknown words. Appends a row for each answer to
results/unknown_words.csv.
"""

import argparse
import random
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from simplepcfg.benchmarking.report import append_rows, environment
from simplepcfg.data.readers import read_sentences
from simplepcfg.errors import TextWarning
from simplepcfg.inference.word_models import load_word_model
from simplepcfg.linguistics.accuracy import Accuracy, Judgement, accuracy_of_set
from simplepcfg.linguistics.minimal_pairs import evaluate_minimal_pairs, read_minimal_pairs
from simplepcfg.linguistics.syntaxgym import evaluate_suites, read_suite
from simplepcfg.linguistics.word_model import WordModel
from simplepcfg.runs.device import resolve_device

RESULTS = Path(__file__).parent / "results" / "unknown_words.csv"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LEAST_LETTERS = 4
LONGEST = 15  # words of a sentence


def main() -> None:
    """Ask, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL", help="runs, installed grammars or files of controls")
    parser.add_argument("--text", type=Path, help="sentences to misspell, one a line")
    parser.add_argument("--misspellings", type=int, default=1000)
    parser.add_argument("--blimp", type=Path, help="folder of minimal pairs")
    parser.add_argument("--pairs", type=int, default=21, help="of each file")
    parser.add_argument("--syntaxgym", type=Path, help="folder of suites")
    parser.add_argument("--items", type=int, default=8, help="of each suite")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", TextWarning)  # unknown words are what this is about
    where = environment(resolve_device(arguments.device))
    for name in arguments.models:
        for vocabulary in ("closed", "open"):
            model = load_word_model(name, arguments.device, closed_vocabulary=vocabulary == "closed")
            for material, answer in answers(model, arguments):
                known = answer.known_accuracy
                row = {
                    **where,
                    "model": Path(name).stem,
                    "material": material,
                    "vocabulary": vocabulary,
                    "items": answer.items,
                    "right_percent": round(100 * answer.accuracy, 2),
                    "ties": answer.ties,
                    "right_percent_known": None if known is None else round(100 * known, 2),
                    "items_with_unknown": answer.unknown_items,
                }
                print(" ".join(f"{key}={row[key]}" for key in list(row)[len(where) :]), flush=True)
                append_rows(RESULTS, [row])


def answers(model: WordModel, arguments: argparse.Namespace) -> Iterator[tuple[str, Accuracy]]:
    """Yield the name of each material and how often the model is right on it."""
    if arguments.text is not None:
        text = list(read_sentences(arguments.text, split=model.preprocessing.split))
        yield "misspellings", misspelling_accuracy(model, text, arguments.misspellings)
    if arguments.blimp is not None:
        files = sorted(path for path in arguments.blimp.iterdir() if ".jsonl" in path.suffixes)
        pairs = [pair for path in files for pair in read_minimal_pairs(path)[: arguments.pairs]]
        yield "BLiMP", evaluate_minimal_pairs(model, pairs)[-1]
    if arguments.syntaxgym is not None:
        files = sorted(path for path in arguments.syntaxgym.iterdir() if ".json" in path.suffixes)
        suites = map(read_suite, files)
        some = [replace(suite, items=suite.items[: arguments.items]) for suite in suites]
        yield "SyntaxGym", evaluate_suites(model, some)[-1]


def misspelling_accuracy(model: WordModel, text: Sequence[list[str]], count: int) -> Accuracy:
    """Return how often a misspelled sentence is less probable than the sentence."""
    drawn = islice(misspellings(model, text), count)
    scores = model.score([words for pair in drawn for words in pair])
    differences = [right - wrong for right, wrong in zip(scores[::2], scores[1::2], strict=True)]
    judged = [Judgement(difference > 0, difference == 0, unknown=True) for difference in differences]
    return accuracy_of_set(model.name, "misspellings", judged)


def misspellings(model: WordModel, text: Sequence[list[str]], seed: int = 0) -> Iterator[tuple[list[str], list[str]]]:
    """Yield sentences of a text, and the same with one word misspelled."""
    generator = random.Random(seed)
    possible = [words for words in text if 2 <= len(words) <= LONGEST]
    while True:
        words = generator.choice(possible)
        place = generator.randrange(len(words))
        word = words[place]
        if len(word) < LEAST_LETTERS or not word.isalpha() or not is_known(model, word):
            continue
        wrong = misspell(word, generator)
        if wrong != word and not is_known(model, wrong):
            yield words, [*words[:place], wrong, *words[place + 1 :]]


def misspell(word: str, generator: random.Random) -> str:
    """Replace, leave out or double a letter, or exchange it with the next."""
    place = generator.randrange(len(word) - 1)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    kind = generator.choice(("replace", "leave out", "double", "exchange"))
    if kind == "replace":
        return before + generator.choice(LETTERS) + after
    if kind == "leave out":
        return before + after
    return before + (letter + letter + after if kind == "double" else after[0] + letter + after[1:])


def is_known(model: WordModel, word: str) -> bool:
    """Tell whether the model knows a word as it prepares it."""
    tokens = model.preprocessing.apply([word]).tokens
    return all(map(model.vocabulary.knows, tokens)) and bool(tokens)


if __name__ == "__main__":
    main()
