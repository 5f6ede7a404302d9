"""How many spans cross punctuation: gold trees beside random ones, by the rule of training.punctuation_weight.

python experiments/punctuation.py TREES...
"""

import sys

import torch

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.readers import read_trees
from simplepcfg.data.tokens import read_breaks
from simplepcfg.evaluation.f1 import proper_spans
from simplepcfg.evaluation.treebank import Treebank, baseline_spans
from simplepcfg.training.step.span_prior import punctuation_prior


def main(files: list[str]) -> None:
    """Print a line for each file."""
    for file in files:
        trees = list(read_trees(file))
        gold = Treebank(trees, Preprocessing()).gold
        breaks = list(read_breaks(trees, Preprocessing()))
        shown = []
        for name, spans in (
            ("gold", [[(i, j) for i, j, _ in tree.spans] for tree in gold]),
            ("random", baseline_spans("random", gold)),
        ):
            crossing = total = 0
            for tree, places, each in zip(gold, breaks, spans, strict=True):
                counted = proper_spans(each, len(tree))
                prior = punctuation_prior(1.0, [places], len(tree), torch.tensor([len(tree)])).bonus[0]
                crossing += sum(bool(prior[i, j]) for i, j in counted)
                total += len(counted)
            shown.append(f"{name} {100 * crossing / total:.1f} % of {total:,}")
        print(f"{file}: spans that cross punctuation: {', '.join(shown)}")


if __name__ == "__main__":
    main(sys.argv[1:])
