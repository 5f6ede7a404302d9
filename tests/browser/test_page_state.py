"""What a person types and asks for, and what the page remembers of it: constraints, links, examples, failures."""

import json
import time
from itertools import pairwise
from urllib.request import urlopen

import pytest

from browser_page import SENTENCE, Page

pytestmark = pytest.mark.browser


def test_forbidding_a_span_changes_tree_and_probability(page: Page) -> None:
    page.type(SENTENCE)
    before = page.one(".scores").text
    page.drag(1, 2)
    assert "[1, 3]" in page.one("#selected").text
    page.one("#require").click()
    page.wait(lambda: page.all("#constraints .required") and "the constraints leave" in page.one(".scores").text)
    page.settle()
    assert float(page.cell(1, 3).get_attribute("data-probability")) == pytest.approx(1.0, abs=1e-3)
    assert page.one(".scores").text != before
    page.one("#forbid").click()
    page.wait(lambda: page.all("#constraints .forbidden") and not page.all("#constraints .required"))
    page.wait(lambda: float(page.cell(1, 3).get_attribute("data-probability")) == 0.0)
    assert "in-tree" not in page.cell(1, 3).get_attribute("class")
    page.wait(lambda: "forbidden" in page.cell(1, 3).get_attribute("class"))
    page.one("#constraints button").click()
    page.wait(lambda: page.one(".scores").text == before)
    page.check_quiet()


def test_constraints_that_cannot_be_are_told(page: Page) -> None:
    page.type("the old dog saw")
    page.drag(0, 1)
    page.one("#require").click()
    page.settle()
    page.drag(1, 2)
    page.one("#require").click()
    page.wait(lambda: "cross" in page.one(".tree-card .failure").text)
    assert page.all(".tree svg") == []
    page.one("#clear").click()
    page.wait(lambda: page.one(".tree-card .failure").text == "" and page.all(".tree svg"))
    page.driver.get_log("browser")  # Chromium notes the answer 400 there


def test_next_words_while_typing(page: Page) -> None:
    page.one("#sentence").send_keys("the ")
    chip = page.wait(lambda: page.all("#suggestions[data-after='the'] button"))[0]
    word = chip.text.split()[0]
    chip.click()
    page.wait(lambda: page.one("#sentence").get_attribute("value") == f"the {word} ")
    page.wait(lambda: page.all(f"#suggestions[data-after='the {word}'] button"))
    page.check_quiet()


def test_several_sentences(page: Page) -> None:
    page.one("#sentence").send_keys("the dog saw a cat\nthe old cat")
    page.wait(lambda: [item.text for item in page.all("#words button")] == ["the", "old", "cat"])
    lines = page.wait(lambda: page.all("#lines button"))
    assert [line.text for line in lines] == ["the dog saw a cat", "the old cat"]
    lines[0].click()
    page.wait(lambda: len(page.all("#words button")) == 5 and len(page.all(".tree text.word")) == 5)


def test_the_server_is_still_well(address: str) -> None:
    with urlopen(f"{address}/api/runs", timeout=60) as answer:
        assert len(json.load(answer)["runs"]) == 3


WRITTEN = "Yesterday, the dog didn't sleep in the garden."


def test_constraints_hit_the_words_that_were_chosen(driver, address: str) -> None:
    page = Page(driver, address, "run=raw&s=")
    page.one("#sentence").send_keys(WRITTEN)
    words = ["Yesterday", ",", "the", "dog", "did", "n't", "sleep", "in", "the", "garden", "."]
    page.wait(lambda: page.words() == words and page.all(".chart svg"))
    assert [item.text for item in page.all("#words .dropped")] == [",", "."]
    page.driver.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", page.cell(2, 4))
    assert page.one("#selected").text == "“the dog” [2, 4]"
    page.drag(2, 3)
    assert page.one("#selected").text == "“the dog” [2, 4]"
    page.one("#require").click()
    page.wait(lambda: page.all("#constraints .required") and (2, 4) in page.tree_spans())
    page.settle()
    page.one("#forbid").click()
    page.wait(lambda: page.all("#constraints .forbidden") and not page.all("body[aria-busy]"))
    page.settle()
    assert (2, 4) not in page.tree_spans()
    assert "“the dog”" in page.one("#constraints").text
    assert float(page.cell(2, 4).get_attribute("data-probability")) == 0.0
    assert "leave 100" not in page.one(".scores").text


def test_typing_asks_for_trees_and_only_pauses_for_next_words(page: Page) -> None:
    sentence = "the old dog saw the small cat"
    box = page.one("#sentence")
    page.driver.execute_script(
        "window.typedAt = []; arguments[0].addEventListener('input', () => typedAt.push(performance.now()))", box
    )
    for character in sentence:
        box.send_keys(character)
        time.sleep(0.06)
    page.wait(lambda: page.words() == sentence.split() and page.all(".tree svg"))
    page.wait(lambda: page.all("#suggestions[data-after]"))
    typed_at = page.driver.execute_script("return typedAt")
    assert len(typed_at) == len(sentence)
    # A busy machine types slowly, and then the page rightly takes some gaps between two keys for pauses.
    gaps = [later - earlier for earlier, later in pairwise(typed_at)]
    assert page.requests("complete") <= 1 + sum(gap > 500 for gap in gaps)  # next words after 600 ms without a key
    assert page.requests("parse") <= 1 + sum(gap > 100 for gap in gaps)  # the tree after 150 ms


def test_nothing_old_looks_current(page: Page) -> None:
    page.type("the old dog saw the cat")
    page.settle()
    # Within the very event, long before 100 ms have passed.
    script = """const box = document.getElementById("sentence"); box.value = arguments[0];
        box.dispatchEvent(new InputEvent("input"));
        return document.querySelectorAll(".panel .card[aria-busy=true]").length"""
    assert page.driver.execute_script(script, "the dog saw") == 4
    page.wait(lambda: page.words() == ["the", "dog", "saw"])
    page.settle()
    page.driver.execute_script("document.querySelector('[value=viterbi]').click()")
    page.wait(lambda: page.all(".tree [data-symbol]"))
    page.settle()
    assert page.driver.execute_script(script, "dog " * 100) == 4
    page.wait(lambda: "send at most 80" in page.one(".tree-card .failure").text)
    page.settle()
    assert page.all(".tree svg, .chart svg, .surprisal svg, .trees svg") == []
    page.driver.execute_script(script, "the dog saw")
    page.wait(lambda: page.all(".tree svg") and page.one(".tree-card .failure").text == "")
    page.settle()
    page.driver.execute_script(script, "")
    page.wait(lambda: not page.all("[aria-busy]"))
    assert page.all(".panel [data-question] svg, #words button") == []
    page.driver.get_log("browser")  # Chromium notes the answers 400 there


def test_a_server_that_is_gone_is_told(driver, start_server) -> None:
    address, process = start_server()
    page = Page(driver, address)
    page.type("the old dog saw the cat")
    process.terminate()
    process.wait(60)
    page.one("#sentence").send_keys(" again")
    page.wait(lambda: "does not answer" in page.one(".tree-card .failure").text)
    page.settle()
    assert page.all(".tree svg, .chart svg, .surprisal svg") == []
    page.driver.get_log("browser")


def test_the_page_opens_with_an_example_and_offers_others(driver, address: str) -> None:
    page = Page(driver, address, "")
    page.settle()
    examples = page.all("#examples button")
    assert len(examples) >= 3
    assert page.one("#sentence").get_attribute("value") == examples[0].text
    assert page.one("#sentence").get_attribute("placeholder")
    assert page.all(".tree svg")
    examples[1].click()
    page.wait(lambda: " ".join(page.words()) == examples[1].text)
    page.settle()
    page.one("[data-question=chart] summary").click()
    assert "constituent" in page.one("[data-question=chart] .help p").text
    page.check_quiet()


def test_a_link_shows_the_same(driver, address: str, open_browser) -> None:
    page = Page(driver, address)
    page.choose("#run", "second")
    page.choose("#compare", "first")
    page.one("[value=viterbi]").click()
    page.one("#sentence").send_keys("the cat sees a dog\nthe old dog saw the cat")
    page.wait(lambda: len(page.words()) == 6 and len(page.all(".tree svg")) == 2)
    page.drag(1, 2)
    page.one("#forbid").click()
    page.wait(lambda: page.all("#constraints .forbidden"))
    page.settle()
    shown = [item.text for item in page.all(".scores")], page.one(".tree").get_attribute("aria-label")
    link = page.driver.current_url
    for other in (page.driver, open_browser()):
        other.get("about:blank")
        other.get(link)
        page = Page.__new__(Page)
        page.driver = other
        page.wait(lambda page=page: len(page.all(".panel .tree svg")) == 2 and not page.all("[aria-busy]"))
        assert ([item.text for item in page.all(".scores")], page.one(".tree").get_attribute("aria-label")) == shown
        assert "“old dog”" in page.one("#constraints").text
        assert page.one("#sentence").get_attribute("value").count("\n") == 1


def test_training_is_replayed(driver, address: str) -> None:
    page = Page(driver, address, "")
    page.settle()
    assert page.one(".moment").text.startswith("epoch 3, validation perplexity")
    page.one(".play").click()
    page.wait(lambda: page.one(".moment").text.startswith("epoch 1,"))
    page.wait(lambda: page.one(".moment").text.startswith("epoch 3,") and page.one(".play").text == "Play")
    assert page.all(".replay svg circle.node")
    page.check_quiet()


def test_smaller_courtesies(page: Page) -> None:
    page.one("#sentence").send_keys("zebra")
    page.wait(lambda: "two words or more" in page.one(".scores").text)
    assert [item.text for item in page.all("#words .unknown")] == ["zebra"]
    page.one("#sentence").send_keys(" the dog barks. The cat sleeps.")
    page.wait(lambda: page.one("#hint").is_displayed())
    page.one("#split").click()
    page.wait(lambda: len(page.all("#lines button")) == 2)
    assert not page.one("#hint").is_displayed()
    page.one("#sentence").clear()
    page.one("#sentence").send_keys("the " + "x" * 200)
    page.wait(lambda: len(page.words()) == 2)
    page.settle()
    assert page.driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    script = "return getComputedStyle(document.querySelector('#words button')).touchAction"
    assert page.driver.execute_script(script) == "pan-y"
