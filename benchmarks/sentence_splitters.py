"""Sentence splitters side by side: boundaries found in the text of a treebank, and speed.

    python benchmarks/sentence_splitters.py dev.trees

The words of twenty trees at a time are joined into a paragraph, by nltk's detokeniser; a boundary is right if it stands
between the same two characters other than white space. pysbd and syntok are compared where they are installed.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from nltk.tokenize.treebank import TreebankWordDetokenizer

from simplepcfg.data.raw_text import sentences_of_paragraph
from simplepcfg.data.readers import read_trees

PARAGRAPH = 20  # sentences
BRACKETS = {"-LRB-": "(", "-RRB-": ")"}


def splitters() -> dict[str, Callable[[str], list[str]]]:
    """By name, those that are installed."""
    by_name: dict[str, Callable[[str], list[str]]] = {
        "simplepcfg (nltk's Punkt, abbreviations)": sentences_of_paragraph
    }
    try:
        import pysbd

        by_name["pysbd"] = pysbd.Segmenter(language="en", clean=False).segment
    except ImportError:
        pass
    try:
        from syntok import segmenter

        def by_syntok(text: str) -> list[str]:
            """Its tokens are rewritten, so sentences are cut out of the text where their first tokens stand."""
            starts = [sentence[0].offset for paragraph in segmenter.process(text) for sentence in paragraph]
            return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]

        by_name["syntok"] = by_syntok
    except ImportError:
        pass
    return splitters


def ends(sentences: list[str]) -> set[int]:
    """Where sentences end, in characters other than white space."""
    places, place = set(), 0
    for sentence in sentences:
        place += len("".join(sentence.split()))
        places.add(place)
    return places


def main() -> None:
    """Print one row a splitter."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("trees", type=Path)
    arguments = parser.parse_args()
    join = TreebankWordDetokenizer().detokenize
    sentences = [
        join([BRACKETS.get(word, word) for word in tree.words])
        for tree in read_trees(arguments.trees)
        if tree.words[-1] in (".", "!", "?", "”", '"')
    ]
    paragraphs = [sentences[start : start + PARAGRAPH] for start in range(0, len(sentences), PARAGRAPH)]
    print("| splitter | precision | recall | F1 | thousand words a second |\n|---|---:|---:|---:|---:|")
    for name, split in splitters().items():
        split("Warm up. Now.")
        hits = guessed = true = words = 0
        begun = time.perf_counter()
        for paragraph in paragraphs:
            text = " ".join(paragraph)
            words += len(text.split())
            guess, truth = ends(split(text)), ends(paragraph)
            hits, guessed, true = hits + len(guess & truth), guessed + len(guess), true + len(truth)
        speed = words / (time.perf_counter() - begun) / 1e3
        precision, recall = 100 * hits / guessed, 100 * hits / true
        f1 = 2 * precision * recall / (precision + recall)
        print(f"| {name} | {precision:.1f} | {recall:.1f} | {f1:.1f} | {speed:,.0f} |")


if __name__ == "__main__":
    main()
