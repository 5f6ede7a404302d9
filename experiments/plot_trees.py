"""S-F1 against perplexity over all runs on GUM and PTB text: docs/images/f1_by_perplexity.svg.

    python experiments/plot_trees.py

Both are of GUM's validation trees, from forest.csv and from benchmarks/results/trees.csv. A run is a point; its colour
says what kind of run it is, and resting the pointer on it which one.
"""

from pathlib import Path

from plans import read_rows
from simplepcfg.drawing import standalone
from simplepcfg.drawing.plots import Frame, horizontal_axis, legend, scale_of, vertical_axis
from simplepcfg.drawing.svg import element, picture, title

HERE = Path(__file__).parent
OUT = HERE.parent / "docs" / "images" / "f1_by_perplexity.svg"
KINDS = (
    "paper's or released networks",
    "recipe, N = 1024",
    "recipe, N = 4096",
    "recipe without dedicated preterminals",
)
WIDTH, HEIGHT = 560.0, 300.0


def main() -> None:
    """Draw and write the picture."""
    points = [*of_forest(), *of_trees()]
    across, up = scale_of([x for _, x, _, _ in points]), scale_of([y for _, _, y, _ in points])
    marks, tall = legend(KINDS, range(len(KINDS)), 60, 20, WIDTH)
    frame = Frame(60, 36 + tall, WIDTH, HEIGHT)
    parts = [*marks, *vertical_axis(frame, up, "S-F1"), *horizontal_axis(frame, across, "perplexity per token")]
    for kind, x, y, name in points:
        place = {"cx": frame.left + across.share(x) * frame.width, "cy": frame.bottom - up.share(y) * frame.height}
        parts.append(
            element(
                "circle",
                title(f"{name}: S-F1 {y:.1f}, perplexity {x:.1f}"),
                r=5,
                class_=f"series-{kind} plain",
                **place,
            )
        )
    label = "S-F1 on GUM's validation trees against perplexity, a point a run"
    OUT.write_text(standalone(picture(parts, WIDTH + 90, frame.bottom + 50, label)), encoding="utf-8")
    print(f"{OUT.name}: {len(points)} runs")


def of_forest() -> list[tuple[int, float, float, str]]:
    """Return the points of the runs of forest.csv that were evaluated on trees: kind, perplexity, S-F1, name."""
    points = []
    for row in read_rows(HERE / "forest.csv"):
        if row["test_sentence_f1"] and row["test_perplexity"]:
            values = float(row["test_perplexity"]), float(row["test_sentence_f1"])
            points.append((kind_of(row["experiment"]), *values, f"{row['experiment']}, seed {row['seed']}"))
    return points


def of_trees() -> list[tuple[int, float, float, str]]:
    """Return the points of other measurements on the same trees, without ensembles and without those of forest.csv."""
    return [
        (
            kind_of(row["system"], row["nonterminals"]),
            float(row["perplexity"]),
            float(row["sentence_f1"]),
            row["system"],
        )
        for row in read_rows(HERE.parent / "benchmarks" / "results" / "trees.csv")
        if row["trees"] == "GUM validation"
        and row["perplexity"]
        and row["training_text"] == "GUM and PTB"
        and not row["system"].endswith("classes of unknown words")  # whose perplexities do not compare
        and not row["system"].startswith("student")
        and not row["system"].endswith(("(a)", "(b)", "(c)", "(d)", "(e)", "(f)"))
    ]


def kind_of(name: str, nonterminals: str = "1024") -> int:
    """Return the place in KINDS of the kind of a run with this name."""
    if name.startswith(("paper", "released")):
        return 0
    if "no dedicated" in name or "rules alike" in name:
        return 3
    return 2 if nonterminals == "4096" or "4096" in name else 1


if __name__ == "__main__":
    main()
