"""Pictures are well-formed SVG that says what it shows, whatever the words are."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from simplepcfg.data.trees import SpanTree
from simplepcfg.drawing import (
    Series,
    grouped_bars,
    heat_map,
    line_plot,
    side_by_side,
    span_chart,
    standalone,
    stylesheet,
    surprisal_bars,
    tree_picture,
)
from simplepcfg.drawing.axes import Scale, scale_of
from simplepcfg.drawing.svg import plain, text_width
from simplepcfg.drawing.trees import layout_tree

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
        lambda words: heat_map(words, words, [[0.5] * len(words)] * len(words), label="x"),
        lambda words: grouped_bars(words, [(word, [1.0] * len(words)) for word in words], value_label="v", label="x"),
        lambda words: line_plot(
            [Series(word, [(0, 1), (1, 2)]) for word in words], x_label="x", y_label="y", label="l"
        ),
    ],
)
@pytest.mark.parametrize("words", [ODD, ["one"], ["the", "old", "dog"] * 20])
def test_any_words(draw: Callable[[list[str]], str], words: list[str]) -> None:
    """Also as a file of its own, in each theme."""
    svg = draw(words)
    parsed(svg)
    for theme in ("auto", "light", "dark"):
        root = parsed(standalone(svg, theme))  # type: ignore[arg-type]
        assert len(list(root.iter(f"{SVG}style"))) == 1


def test_nothing_at_all() -> None:
    for svg in (
        tree_picture(SpanTree((), (), ())),
        span_chart([], [[0.0]]),
        surprisal_bars([], []),
        line_plot([], x_label="x", y_label="y", label="nothing"),
        grouped_bars([], [], value_label="v", label="nothing"),
        heat_map([], [], [], label="nothing"),
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


def test_tree_picture_tells_symbols_and_probabilities() -> None:
    svg = tree_picture(TREE, probabilities={(0, 2): 0.75}, wrong={(0, 2)})
    root = parsed(svg)
    groups = {item.get("data-symbol"): item for item in root.iter(f"{SVG}g") if item.get("data-symbol")}
    assert set(groups) == {"S", "NP", "DT", "NN", "VBZ"}
    assert groups["NP"].get("data-start") == "0"
    assert groups["NP"].get("data-end") == "2"
    assert groups["NP"].find(f"{SVG}title").text == "NP: a dog (0.750)"  # type: ignore[union-attr]
    assert "wrong" in svg
    plain_tree = parsed(tree_picture(flat(["a", "b"])))
    assert len(list(plain_tree.iter(f"{SVG}circle"))) == 1
    assert texts(plain_tree) == ["a", "b"]


def test_chart_cells() -> None:
    marginals = [[0.0] * 4 for _ in range(4)]
    marginals[0][2], marginals[1][3], marginals[0][3] = 0.9, 0.1, 1.0
    root = parsed(span_chart(["a", "b", "c"], marginals, tree={(0, 2)}, required={(0, 2)}, forbidden={(1, 3)}))
    cells = {
        (int(item.get("data-start", "")), int(item.get("data-end", ""))): float(item.get("fill-opacity", ""))
        for item in root.iter(f"{SVG}polygon")
        if item.get("class") == "cell"
    }
    assert cells == {(0, 3): 1.0, (0, 2): 0.9, (1, 3): 0.1}
    rings = sorted(item.get("class", "") for item in root.iter(f"{SVG}polygon") if item.get("class") != "cell")
    assert rings == ["ring", "ring forbidden", "ring required"]


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
    for theme in ("light", "dark"):
        assert "var(" not in stylesheet(theme)  # type: ignore[arg-type]
    assert stylesheet("light") != stylesheet("dark")
    assert stylesheet(root=":root").startswith(":root {")


def test_text_helpers() -> None:
    assert plain("a\x00b") == "a�b"
    assert text_width("mmm") > text_width("iii")
    assert text_width("中文") > text_width("ab")


def test_side_by_side() -> None:
    one, two = tree_picture(TREE), surprisal_bars(["a"], [1.0])
    root = parsed(standalone(side_by_side([one, two], "both")))
    first, second = (item for item in root if item.tag == f"{SVG}svg")
    assert first.get("x") == "0"
    assert float(second.get("x", "0")) == float(first.get("width", "0")) + 24
    assert float(root.get("width", "0")) >= float(second.get("x", "0")) + float(second.get("width", "0"))
