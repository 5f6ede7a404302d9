"""What the spelling of unknown words changes: misspellings, minimal pairs, suites, perplexity, without and with it.

    python benchmarks/unknown_words.py MODEL ... --text TEXT [--misspellings 1000] [--blimp FOLDER] [--syntaxgym FOLDER]
        [--novels TEXT] [--kept FILE]

MODEL is a run, an installed grammar, or the file of an n-gram model. Each question is asked once and answered
twice: with a closed vocabulary, in which every unknown word is `<unk>` or its class, and with spellings.

A misspelling is a sentence of TEXT (one a line) in which one letter of a known word of four letters or more is
replaced, left out, doubled or exchanged with the next, so that no known word comes out; it is right if the sentence
becomes less probable. Of minimal pairs and suites the mean over files stands beside that over items without unknown
words; `--pairs` and `--items` take the first of each file. Of novels the perplexity is given, per word and per
character. `--kept` keeps the log-probabilities of minimal pairs without spellings, which take longest.
Appends a row for each material to results/unknown_words.csv.
"""

import argparse
import json
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmarking.report import append_rows, environment
from simplepcfg.data.readers import read_sentences
from simplepcfg.data.spelling import spelling_log_probability
from simplepcfg.errors import TextWarning
from simplepcfg.inference.evaluation import evaluate_ngram
from simplepcfg.inference.run import Run
from simplepcfg.inference.word_models import load_word_model
from simplepcfg.linguistics.accuracy import Accuracy, Judgement, accuracy_of_set
from simplepcfg.linguistics.controls.ngram import NgramModel
from simplepcfg.linguistics.minimal_pairs import evaluate_minimal_pairs, read_minimal_pairs
from simplepcfg.linguistics.syntaxgym import evaluate_suites, read_suite
from simplepcfg.linguistics.word_model import Words, WordSurprisal
from simplepcfg.runs.device import resolve_device

RESULTS = Path(__file__).parent / "results" / "unknown_words.csv"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LEAST_LETTERS = 4
LONGEST = 15  # words of a sentence
ALL = 10**9
Model = Run | NgramModel


def main() -> None:
    """Ask, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL", help="runs, installed grammars or files of controls")
    parser.add_argument("--text", type=Path, help="sentences to misspell, one a line")
    parser.add_argument("--misspellings", type=int, default=1000)
    parser.add_argument("--blimp", type=Path, help="folder of minimal pairs")
    parser.add_argument("--pairs", type=int, default=ALL, help="of each file")
    parser.add_argument("--syntaxgym", type=Path, help="folder of suites")
    parser.add_argument("--items", type=int, default=ALL, help="of each suite")
    parser.add_argument("--novels", type=Path, help="text to give the perplexity of, one sentence a line")
    parser.add_argument("--kept", type=Path, help="JSON of log-probabilities, read if it is there and written")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", TextWarning)  # unknown words are what this is about
    where = environment(resolve_device(arguments.device))
    for name in arguments.models:
        model = Remembering(load_word_model(name, arguments.device), arguments.kept)
        for material, answer in answers(model, arguments):
            row = {**where, "model": Path(name).stem, "material": material, **dict.fromkeys(ANSWERS), **answer}
            print(" ".join(f"{key}={row[key]}" for key in list(row)[len(where) :]), flush=True)
            append_rows(RESULTS, [row])
        model.keep()


ANSWERS = (
    "items",
    "closed_percent",
    "open_percent",
    "known_percent",
    "items_with_unknown",
    "ties",
    "perplexity",
    "character_perplexity",
)


class Remembering:
    """A model that computes log-probabilities once and answers by them with and without spellings."""

    def __init__(self, model: Model, kept: Path | None) -> None:
        self.model, self.closed, self._kept = model, False, kept
        self.name, self.vocabulary, self.preprocessing = model.name, model.vocabulary, model.preprocessing
        self._scores: dict[str, float] = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
        self._records: dict[str, Sequence[WordSurprisal]] = {}

    def keep(self) -> None:
        """Write the log-probabilities without spellings, if there is a file for them."""
        if self._kept is not None:
            self._kept.write_text(json.dumps(self._scores))

    def spelled(self, words: Words) -> float:
        """Return the log-probability of the spellings of a sentence."""
        return sum(map(self._spelled, self.preprocessing.apply(words).tokens))

    def _spelled(self, token: str) -> float:
        return spelling_log_probability(self.model.spelling, self.vocabulary, token)

    def score(self, sentences: Sequence[Words]) -> list[float]:
        """Return log p of each sentence."""
        new = {" ".join(words): words for words in sentences if " ".join(words) not in self._scores}
        for key, score in zip(new, self.model.score(list(new.values())) if new else [], strict=True):
            self._scores[key] = score - self.spelled(new[key])
        return [self._scores[" ".join(words)] + (0 if self.closed else self.spelled(words)) for words in sentences]

    def surprisal(
        self, sentences: Sequence[Words], *, ends: bool = True, entropies: bool = False
    ) -> list[list[WordSurprisal]]:
        """Return the records of each sentence."""
        new = {" ".join(words): words for words in sentences if " ".join(words) not in self._records}
        if new:
            tables = self.model.surprisal(list(new.values()), ends=True, entropies=False)
            self._records.update(zip(new, tables, strict=True))
        return [self._without_spellings(words, self._records[" ".join(words)]) for words in sentences]

    def _without_spellings(self, words: Words, records: Sequence[WordSurprisal]) -> list[WordSurprisal]:
        if not self.closed:
            return list(records)
        closed, prepared = list(records), self.preprocessing.apply(words)
        for place, token in zip(prepared.kept, prepared.tokens, strict=False):
            surprisal = records[place].surprisal
            if surprisal is not None:
                closed[place] = replace(records[place], surprisal=surprisal + self._spelled(token))
        return closed


def answers(model: Remembering, arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the name of each material and how often the model is right on it, or its perplexity."""
    if arguments.text is not None:
        text = list(read_sentences(arguments.text, split=model.preprocessing.split))
        yield "misspellings", both_ways(model, lambda: misspelling_accuracy(model, text, arguments.misspellings))
    if arguments.blimp is not None:
        files = sorted(path for path in arguments.blimp.iterdir() if ".jsonl" in path.suffixes)
        pairs = [pair for path in files for pair in read_minimal_pairs(path)[: arguments.pairs]]
        yield "BLiMP", both_ways(model, lambda: evaluate_minimal_pairs(model, pairs)[-1])
    if arguments.syntaxgym is not None:
        files = sorted(path for path in arguments.syntaxgym.iterdir() if ".json" in path.suffixes)
        suites = map(read_suite, files)
        some = [replace(suite, items=suite.items[: arguments.items]) for suite in suites]
        yield "SyntaxGym", both_ways(model, lambda: evaluate_suites(model, some)[-1])
    if arguments.novels is not None:
        sentences = list(read_sentences(arguments.novels, split=model.preprocessing.split))
        each = model.model
        report = each.evaluate(sentences) if isinstance(each, Run) else evaluate_ngram(each, sentences, "")
        closed, spelled = report.perplexity, report.open_vocabulary
        yield (
            "novels",
            {
                "items": len(sentences),
                "perplexity": None if closed is None else round(closed.perplexity, 2),
                "character_perplexity": None if spelled is None else round(spelled.character_perplexity, 4),
            },
        )


def both_ways(model: Remembering, evaluate: Callable[[], Accuracy]) -> dict[str, object]:
    """Return what is recorded of an accuracy without and with spellings; on items of known words both are the same."""
    model.closed = True
    closed = evaluate()
    model.closed = False
    spelled = evaluate()
    known = spelled.known_accuracy
    return {
        "items": spelled.items,
        "closed_percent": round(100 * closed.accuracy, 2),
        "open_percent": round(100 * spelled.accuracy, 2),
        "known_percent": None if known is None else round(100 * known, 2),
        "items_with_unknown": spelled.unknown_items,
        "ties": spelled.ties,
    }


def misspelling_accuracy(model: Remembering, text: Sequence[list[str]], count: int) -> Accuracy:
    """Return how often a misspelled sentence is less probable than the sentence."""
    drawn = islice(misspellings(model, text), count)
    scores = model.score([words for pair in drawn for words in pair])
    differences = [right - wrong for right, wrong in zip(scores[::2], scores[1::2], strict=True)]
    judged = [Judgement(difference > 0, difference == 0, unknown=True) for difference in differences]
    return accuracy_of_set(model.name, "misspellings", judged)


def misspellings(model: Remembering, text: Sequence[list[str]], seed: int = 0) -> Iterator[tuple[list[str], list[str]]]:
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


def is_known(model: Remembering, word: str) -> bool:
    """Tell whether the model knows a word as it prepares it."""
    tokens = model.preprocessing.apply([word]).tokens
    return all(map(model.vocabulary.knows, tokens)) and bool(tokens)


if __name__ == "__main__":
    main()
