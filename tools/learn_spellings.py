"""Learn the spellings of unknown words of a run anew from its text, and write them into its folder.

    python tools/learn_spellings.py src/simplepcfg/pretrained/english build/text/english/train.txt

Training does the same by itself; this is for a run whose text is still there, when the model of spellings has changed.
"""

import argparse
from collections import Counter
from pathlib import Path

from simplepcfg.data.readers import open_text
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.runs.tensor_files import write_tensor_file


def main() -> None:
    """Count the words of the text, and write the spellings of those that the run does not know."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path, help="training text of the run, tokenised, one sentence a line")
    arguments = parser.parse_args()
    folder = RunFolder(arguments.run)
    vocabulary, preprocessing = Vocabulary.load(folder.vocabulary), folder.read_config().data.preprocessing
    counts = Counter[str]()
    for line in open_text(arguments.text):
        counts.update(preprocessing.apply(line.split()).tokens)
    spelling = SpellingModel.of_unknown_words(counts, vocabulary)
    write_tensor_file(folder.spelling, spelling.to_tensors(), {})
    print(f"{folder.spelling}: {spelling.unknown_tokens:,} of {counts.total():,} words are unknown")


if __name__ == "__main__":
    main()
