"""Make the pictures of the README from a trained run.

    simplepcfg demo
    python docs/images/make_pictures.py runs/demo

Writes parse.svg and scores.svg beside this file. They are what the run says: nothing in them is drawn by hand.
"""

import sys
from pathlib import Path

import simplepcfg
from simplepcfg.data.readers import read_trees
from simplepcfg.drawing import side_by_side, span_chart, standalone, tree_picture
from simplepcfg.files import write_text
from simplepcfg.inference.run_summary import perplexity_curve
from simplepcfg.reports.measured import measure
from simplepcfg.reports.scores import length_figure
from simplepcfg.runs.history import read_history

SENTENCE = "my old dog followed the cat in the garden"


def main() -> None:
    """Draw both."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo")
    run = simplepcfg.load(folder, "cpu")
    here = Path(__file__).parent
    (tree,) = run.parse_spans([SENTENCE], decode="viterbi")
    chart = run.chart(SENTENCE)
    spans = {(i, j) for i, j, _ in tree.spans}
    told = f"the most probable tree of “{SENTENCE}”, and the probability of each span"
    parse = [tree_picture(tree), span_chart(chart.words, chart.table(), tree=spans)]
    write_text(here / "parse.svg", standalone(side_by_side(parse, told)) + "\n")

    curve = perplexity_curve([("demo", read_history(folder))])
    assert curve is not None, f"{folder} has no record of its training"
    trees = list(read_trees(folder / "test.trees"))
    bars = length_figure(measure({"demo": run}, trees, "the test trees", print)).svg
    told = "perplexity of the demo by epoch, and its F1 by length beside baselines"
    write_text(here / "scores.svg", standalone(side_by_side([curve, bars], told)) + "\n")


if __name__ == "__main__":
    main()
