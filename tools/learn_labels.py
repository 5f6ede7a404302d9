"""Learn the labels of an English grammar from the trees of GUM's training part that are CC BY.

    python tools/learn_labels.py runs/english/student DATA/gum/train.trees

Writes labels.json into the run's folder. Other treebanks need no choice of lines: `simplepcfg evaluate RUN gold.trees
--write-labels RUN/labels.json`.
"""

import argparse
from pathlib import Path

from grammar_text import GUM_CC_BY

from simplepcfg.data.readers import read_trees
from simplepcfg.inference.labelling import learn_labels
from simplepcfg.inference.run import load


def main() -> None:
    """Learn, and say from how many trees."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("trees", type=Path)
    arguments = parser.parse_args()
    trees = list(read_trees(arguments.trees))
    chosen = [tree for start, end in GUM_CC_BY for tree in trees[start:end]]
    labels = learn_labels(load(arguments.run), chosen)
    (arguments.run / "labels.json").write_text(labels.to_json(), encoding="utf-8")
    print(f"{arguments.run / 'labels.json'}: from {len(chosen):,} trees")


if __name__ == "__main__":
    main()
