"""Pictures are well-formed SVG that says what it shows, whatever the words are."""

import math
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise

import pytest

from simplepcfg.data.brackets import parse_tree
from simplepcfg.data.trees import SpanTree
from simplepcfg.drawing import (
    Series,
    line_plot,
    span_chart,
    standalone,
    stylesheet,
    surprisal_bars,
    tree_picture,
)
from simplepcfg.drawing.plots import Scale, scale_of
from simplepcfg.drawing.svg import plain, text_width
from simplepcfg.drawing.trees import edge_points, layout_tree

SVG = "{http://www.w3.org/2000/svg}"
ODD = ["<b>", "&amp;", 'say "x"', "中文字", "é́", "\x00\x1b", "a" * 100, "🙂", "]]>"]
TREE = SpanTree(("a", "dog", "barks"), ("DT", "NN", "VBZ"), ((0, 3, "S"), (0, 2, "NP")))


def parsed(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("aria-label")
    assert float(root.get("width", "0")) > 0
    assert "nan" not in svg
    assert "inf," not in svg
    return root


def texts(root: ET.Element) -> list[str]:
    return ["".join(item.itertext()) for item in root.iter(f"{SVG}text")]


def flat(words: list[str]) -> SpanTree:
    return SpanTree.from_spans(words, [])


def triangle(n: int) -> list[list[float]]:
    return [[0.5 if j - i > 1 else 0.0 for j in range(n + 1)] for i in range(n + 1)]


@pytest.mark.parametrize(
    "draw",
    [
        lambda words: tree_picture(flat(words)),
        lambda words: span_chart(words, triangle(len(words))),
        lambda words: surprisal_bars(words, [1.0] * len(words), [2.0] * len(words)),
        lambda words: line_plot(
            [Series(word, [(0, 1), (1, 2)]) for word in words], x_label="x", y_label="y", label="l"
        ),
    ],
)
@pytest.mark.parametrize("words", [ODD, ["one"], ["the", "old", "dog"] * 20])
def test_any_words(draw: Callable[[list[str]], str], words: list[str]) -> None:
    """Also as a file of its own."""
    svg = draw(words)
    parsed(svg)
    assert len(list(parsed(standalone(svg)).iter(f"{SVG}style"))) == 1


def test_nothing_at_all() -> None:
    for svg in (
        tree_picture(SpanTree((), (), ())),
        span_chart([], [[0.0]]),
        surprisal_bars([], []),
        line_plot([], x_label="x", y_label="y", label="nothing"),
    ):
        parsed(svg)


def test_tree_nodes_stand_over_their_words() -> None:
    layout = layout_tree(TREE)
    spans = [node for node in layout.nodes if node.kind == "span"]
    words = [node for node in layout.nodes if node.kind == "word"]
    assert [node.label for node in words] == ["a", "dog", "barks"]
    assert len({node.y for node in words}) == 1
    sentence, phrase = spans
    assert sentence.y < phrase.y < words[0].y
    assert words[0].x < phrase.x < words[1].x
    assert phrase.x == pytest.approx((words[0].x + words[1].x) / 2)
    assert all(0 <= node.x <= layout.width and 0 <= node.y <= layout.height for node in layout.nodes)
    assert [layout.nodes[node.parent].label for node in layout.nodes if node.kind == "tag"] == ["NP", "NP", "S"]


def test_deep_trees_and_unary_chains() -> None:
    n = 1500  # deeper than Python's recursion
    deep = SpanTree.from_spans([f"w{i}" for i in range(n)], [(i, n) for i in range(n - 1)])
    assert len(layout_tree(deep).nodes) == 2 * n - 1
    unary = SpanTree(("go",), ("VB",), ((0, 1, "S"), (0, 1, "VP")))
    heights = [node.y for node in layout_tree(unary).nodes]
    assert heights == sorted(heights)
    assert len(set(heights)) == 4


def test_tree_picture_tells_symbols() -> None:
    svg = tree_picture(TREE, wrong={(0, 2)})
    root = parsed(svg)
    groups = {item.get("data-symbol"): item for item in root.iter(f"{SVG}g") if item.get("data-symbol")}
    assert set(groups) == {"S", "NP", "DT", "NN", "VBZ"}
    assert groups["NP"].get("data-start") == "0"
    assert groups["NP"].get("data-end") == "2"
    assert groups["NP"].find(f"{SVG}title").text == "NP: a dog"  # type: ignore[union-attr]
    assert "wrong" in svg
    plain_tree = parsed(tree_picture(flat(["a", "b"])))
    assert len(list(plain_tree.iter(f"{SVG}circle"))) == 1
    assert texts(plain_tree) == ["a", "b"]


def test_chart_cells() -> None:
    marginals = [[0.0] * 4 for _ in range(4)]
    marginals[0][2], marginals[1][3], marginals[0][3] = 0.9, 0.1, 1.0
    root = parsed(span_chart(["a", "b", "c"], marginals, tree={(0, 2)}))
    cells = {
        (int(item.get("data-start", "")), int(item.get("data-end", ""))): float(item.get("fill-opacity", ""))
        for item in root.iter(f"{SVG}polygon")
        if item.get("class") == "cell"
    }
    assert cells == {(0, 3): 1.0, (0, 2): 0.9, (1, 3): 0.1}
    assert [item.get("class") for item in root.iter(f"{SVG}polygon")].count("ring") == 1


def test_surprisal_bars() -> None:
    words, values = ["a", "b", ".", "c"], [1.0, 3.0, None, math.inf]
    root = parsed(surprisal_bars(words, values, [2.0, 2.0, None, 1.0]))
    bars = {item.get("data-word"): float(item.get("height", "")) for item in root.iter(f"{SVG}rect")}
    assert set(bars) == {"a", "b", "c"}
    assert bars["b"] == pytest.approx(3 * bars["a"], rel=0.01)
    assert bars["c"] >= bars["b"]
    assert "c: impossible here" in ET.tostring(root, encoding="unicode")


def test_curves_leave_out_what_is_not_finite() -> None:
    points = [(1.0, 90.0), (2.0, math.inf), (3.0, math.nan), (4.0, 40.0)]
    root = parsed(line_plot([Series("one", points)], x_label="epoch", y_label="perplexity", label="l", log=True))
    (line,) = root.iter(f"{SVG}polyline")
    assert len((line.get("points") or "").split()) == 2
    assert {"one", "epoch", "perplexity"} <= set(texts(root))


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0.0, 1.0), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (Scale(0.0, 97.3), [0.0, 20.0, 40.0, 60.0, 80.0]),
        (Scale(30.0, 250.0, True), [30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 100.0, 150.0, 200.0]),
        (Scale(1.0, 1e4, True), [1.0, 10.0, 100.0, 1000.0, 10000.0]),
    ],
)
def test_ticks_are_round(scale: Scale, ticks: list[float]) -> None:
    assert scale.ticks() == ticks
    assert all(-0.001 <= scale.share(value) <= 1.001 for value in ticks)


@pytest.mark.parametrize("values", [[], [5.0], [0.0], [-3.0, -3.0], [1e-9, 1e9], [math.nan], [1.0, 1.0]])
@pytest.mark.parametrize("log", [False, True])
def test_scales_of_odd_values(values: list[float], log: bool) -> None:
    scale = scale_of(values, log=log)
    assert scale.high > scale.low
    assert scale.ticks()


def test_themes() -> None:
    assert "prefers-color-scheme" in stylesheet()
    assert stylesheet(root=":root").startswith(":root {")


def test_text_helpers() -> None:
    assert plain("a\x00b") == "a�b"
    assert text_width("mmm") > text_width("iii")
    assert text_width("中文") > text_width("ab")


FLAT = parse_tree(
    "(S (S (NP (PRP we)) (VP (MD will) (VP (VB see) (NP (NP (DT a) (JJ big) (JJ old) (NN dog)) (SBAR (WDT that) "
    "(VBD ran)))))) (, ,) (CC and) (RB then) (S (NP (PRP it)) (VP (VBD slept))) (. .))"
)


def random_tree(rng: random.Random, n: int, labelled: bool) -> SpanTree:
    """Of any branching, with one-word phrases."""
    spans = []
    waiting = [(0, n)]
    while waiting:
        i, j = waiting.pop()
        spans.append((i, j, rng.choice(["S", "NP", "a … long name"]) if labelled else "X"))
        cuts = sorted({i, j, *(rng.randrange(i, j) for _ in range(rng.choice([1, 1, 3])))})
        waiting += [part for part in pairwise(cuts) if part != (i, j) and (part[1] - part[0] > 1 or rng.random() < 0.2)]
    spans.sort(key=lambda span: (span[0], -span[1]))
    return SpanTree(tuple("x" * rng.randint(1, 9) for _ in range(n)), ("NN" if labelled else "T",) * n, tuple(spans))


def crossings(tree: SpanTree) -> list[tuple]:
    """Pairs of edges that cross, and edges through the label of another node."""
    layout = layout_tree(tree)
    segments = [(k, *pair) for k, points in enumerate(edge_points(layout)) for pair in pairwise(points)]
    boxes = [
        (node.x - width / 2, node.y - 10, node.x + width / 2, node.y + 4)
        for node in layout.nodes
        if not node.is_dot and (width := text_width(node.label, 14.0 if node.kind == "word" else 12.0))
    ]
    wrong: list[tuple] = []
    for k, a, b in segments:
        for other, c, d in segments:
            if k < other and not {a, b} & {c, d} and _cross(a, b, c, d):
                wrong.append((a, b, c, d))
        for box in boxes:
            shares = (share / 40 for share in range(41))
            points = ((a[0] + s * (b[0] - a[0]), a[1] + s * (b[1] - a[1])) for s in shares)
            if any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points):
                wrong.append((a, b, box))
    return wrong


def _cross(a: tuple, b: tuple, c: tuple, d: tuple) -> bool:
    def side(p: tuple, q: tuple, r: tuple) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


@pytest.mark.parametrize("labelled", [True, False])
def test_no_edge_crosses_another_or_a_label(labelled: bool) -> None:
    rng = random.Random(0)
    assert crossings(FLAT) == []
    for _ in range(40):
        assert crossings(random_tree(rng, rng.randint(2, 25), labelled)) == []


def test_edges_end_at_their_nodes() -> None:
    layout = layout_tree(SpanTree.from_spans(["a", "b", "c", "d"], [(1, 4), (2, 4)]))
    dots = {(node.x, node.y) for node in layout.nodes if node.is_dot}
    edges = edge_points(layout)
    assert len(edges) == len(layout.nodes) - 1
    assert all(points[0] in dots for points in edges)
    words = {(node.x, node.y - 12) for node in layout.nodes if node.kind == "word"}
    assert {points[-1] for points in edges} <= dots | words


def test_names_of_symbols_are_shown() -> None:
    tree = SpanTree(("the", "dog"), ("T-1", "T-2"), ((0, 2, "NT-3"),))
    svg = tree_picture(tree, names={"NT-3": "the … dog", "T-1": "DT"})
    assert texts(parsed(svg))[:2] == ["the … dog", "DT"]
    assert 'data-symbol="NT-3"' in svg


def test_a_file_has_its_own_background() -> None:
    """Colours of words may follow a dark system; what lies behind the picture does not."""
    root = parsed(standalone(tree_picture(TREE)))
    (background,) = [item for item in root.findall(f"{SVG}rect") if item.get("width") == "100%"]
    assert background.get("class") == "halo"


def test_the_heading_of_short_bars_is_not_cut() -> None:
    root = parsed(surprisal_bars(["a"], [1.0]))
    (heading,) = [item for item in root.iter(f"{SVG}text") if "surprisal (nats)" in (item.text or "")]
    assert float(heading.get("x", "0")) + text_width(heading.text or "", 12) <= float(root.get("width", "0"))


def test_bars_with_a_common_axis() -> None:
    low, high = surprisal_bars(["a"], [1.0], most=10.0), surprisal_bars(["a"], [10.0])
    heights = [float(re.search(r' height="([\d.]+)" rx', svg)[1]) for svg in (low, high)]  # type: ignore[index]
    assert heights[0] == pytest.approx(heights[1] / 10, abs=0.1)


def test_cells_name_the_places_of_their_words() -> None:
    svg = span_chart(["a", "b", "c"], triangle(3), places=[0, 2, 3])
    assert 'data-start="2" data-end="4"' in svg
    assert "b c [2, 4]" in svg
