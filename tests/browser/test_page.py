"""Answers on the page in a real browser: trees, charts, symbols, other trees, two runs, files."""

import json
from pathlib import Path

import pytest

from browser_page import SENTENCE, Page

pytestmark = pytest.mark.browser


def test_a_sentence_has_a_tree_a_chart_and_surprisals(page: Page) -> None:
    page.type(SENTENCE)
    assert [item.text for item in page.all(".tree text.word")] == SENTENCE.split()
    assert len(page.all(".tree circle.node")) == 8  # n − 1 nodes of nine words
    assert len(page.all(".chart .cell")) == 36
    assert len(page.all(".surprisal rect.bar")) == 10  # and the end
    assert "log p = " in page.one(".scores").text
    page.wait(lambda: len(page.all(".trees li")) == 5)
    page.check_quiet()


def test_hovering_a_cell_tells_span_probability_and_symbols(page: Page) -> None:
    from selenium.webdriver import ActionChains

    page.type(SENTENCE)
    ActionChains(page.driver).move_to_element(page.cell(1, 3)).perform()
    told = page.wait(lambda: "old dog" in page.one(".details").text and page.one(".details").text)
    assert "[1, 3]" in told
    assert "probability" in told
    assert told.count("NT-") == 3


def test_switching_the_decoder(page: Page) -> None:
    page.type(SENTENCE)
    assert page.all(".tree [data-symbol]") == []
    page.one("[value=viterbi]").click()
    page.wait(lambda: len(page.all(".tree [data-symbol^=NT]")) == 8)
    assert len(page.all(".tree [data-symbol^='T-']")) == 9
    page.one("[value=mbr]").click()
    page.wait(lambda: not page.all(".tree [data-symbol]"))
    page.check_quiet()


def test_a_symbol_leads_to_its_children(page: Page) -> None:
    page.one("[value=viterbi]").click()
    page.type(SENTENCE)
    node = page.wait(lambda: page.all(".tree [data-symbol^=NT]"))[0]
    name = node.get_attribute("data-symbol")
    node.click()
    page.wait(lambda: page.one("#symbol-title").text == name and page.all("#symbol-content button"))
    assert "words below it" in page.one("#symbol-content").text
    child = page.all("#symbol-content button")[0]
    child_name = child.text
    child.click()
    page.wait(lambda: page.one("#symbol-title").text == child_name)
    page.one("#symbol-back").click()
    page.wait(lambda: page.one("#symbol-title").text == name)
    assert not page.one("#symbol-back").is_enabled()
    page.one("#symbol-close").click()
    page.wait(lambda: not page.all("dialog[open]"))


def test_k_best_and_sampled_trees(page: Page) -> None:
    page.type(SENTENCE)
    count = page.one(".count")
    count.clear()
    count.send_keys("3")
    page.one("[data-trees=k_best]").click()
    page.settle()  # bracketings that were asked for before may be three, too
    page.wait(lambda: len(page.all(".trees li")) == 3)
    page.all(".trees summary")[0].click()
    page.wait(lambda: page.all(".trees svg"))
    page.one("[data-trees=sample_trees]").click()
    page.wait(lambda: len(page.all(".trees li")) == 3 and not page.all(".trees svg"))
    page.check_quiet()


def test_other_trees_have_different_brackets_and_summed_shares(page: Page) -> None:
    page.type("the old dog")
    page.wait(lambda: len(page.all(".trees li")) == 2)  # all binary trees of three words
    told = [item.text for item in page.all(".trees summary")]
    assert sum(float(text.split(" %")[0]) for text in told) == pytest.approx(100, abs=0.2)
    assert sorted("the brackets above" in text for text in told) == [False, True]
    pictures = page.wait(lambda: page.all(".trees svg"))
    marked = [len(picture.find_elements("css selector", ".differs")) for picture in pictures]
    assert sorted(marked) == [0, 1]


def test_two_runs_side_by_side(page: Page, screenshot) -> None:
    page.choose("#compare", "second")
    page.type(SENTENCE)
    page.wait(lambda: len(page.all(".tree svg")) == 2 and len(page.all(".chart svg")) == 2)
    first, second = page.all(".panel")
    assert "first" in first.text
    assert "second" in second.text
    assert first.location["y"] == second.location["y"]
    assert first.location["x"] < second.location["x"]
    assert page.all(".scores")[0].text != page.all(".scores")[1].text
    page.settle()
    axes = [
        [item.text for item in panel.find_elements("css selector", ".surprisal .muted")] for panel in page.all(".panel")
    ]
    assert axes[0] == axes[1]
    spans = [
        {
            (node.get_attribute("data-start"), node.get_attribute("data-end"))
            for node in panel.find_elements("css selector", f".tree circle{kind}")
        }
        for panel in page.all(".panel")
        for kind in ("", ".differs")
    ]
    assert spans[1] == spans[0] - spans[2]
    assert spans[3] == spans[2] - spans[0]
    page.check_quiet()
    screenshot(page.driver, "two-runs")


def test_export(page: Page) -> None:
    page.one("[value=viterbi]").click()
    page.type(SENTENCE)
    page.wait(lambda: page.all(".tree [data-symbol]"))
    folder: Path = page.driver.downloads
    for kind in ("svg", "brackets", "json", "chart", "surprisal"):
        page.one(f"[data-export={kind}]").click()
    names = {"first-tree.svg", "first.trees", "first.json", "first-chart.svg", "first-surprisal.svg"}
    page.wait(lambda: names <= {path.name for path in folder.iterdir()})
    svg = (folder / "first-tree.svg").read_text()
    assert "<style" in svg
    assert "NT-" in svg
    assert (folder / "first.trees").read_text().startswith("(NT-")
    found = json.loads((folder / "first.json").read_text())
    assert found["sentence"] == SENTENCE
    assert found["tree"]["brackets"] + "\n" == (folder / "first.trees").read_text()
    assert len(found["chart"]["spans"]) == 36
    assert len(found["surprisal"]) == 11
    assert found["log_probability"] < 0
    page.check_quiet()
