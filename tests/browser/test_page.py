"""The page in a real browser: what a person types, sees, hovers, drags and presses."""

import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from urllib.request import urlopen

import pytest

pytestmark = pytest.mark.browser

SENTENCE = "the old dog saw the cat in the garden ."


class Page:
    """The page as a person uses it."""

    def __init__(self, driver, address: str, state: str = "s=") -> None:
        """Open the page with this state in its address: an empty box unless another is given."""
        self.driver = driver
        driver.get("about:blank")  # else another state of the same page would load nothing
        driver.get(f"{address}/#{state}" if state else address)
        self.wait(lambda: self.all("body[data-ready]"))

    def all(self, selector: str) -> list:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def wait(self, condition: Callable, seconds: float = 90.0):
        """Until the condition holds; what it gives."""
        from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if found := condition():
                    return found
            except (StaleElementReferenceException, NoSuchElementException):
                pass  # the page has drawn anew meanwhile
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s; the page says {self.one('#problem').text!r}")

    def type(self, text: str) -> None:
        self.one("#sentence").send_keys(text)
        words = text.strip().splitlines()[-1].split()
        self.wait(
            lambda: [item.text for item in self.all("#words button")] == words and not self.all("body[aria-busy]")
        )
        self.wait(lambda: self.all(".tree svg") and self.all(".chart svg") and self.all(".surprisal svg"))

    def settle(self) -> None:
        self.wait(lambda: not self.all("[aria-busy]"))

    def words(self) -> list[str]:
        return [item.text for item in self.all("#words button")]

    def tree_spans(self) -> set[tuple[int, int]]:
        nodes = self.all(".tree circle.node, .tree .labelled")
        return {(int(node.get_attribute("data-start")), int(node.get_attribute("data-end"))) for node in nodes}

    def requests(self, question: str) -> int:
        script = "return performance.getEntriesByName(location.origin + arguments[0]).length"
        return self.driver.execute_script(script, f"/api/{question}")

    def choose(self, selector: str, value: str) -> None:
        self.one(f"{selector} option[value='{value}']").click()

    def drag(self, first: int, last: int) -> None:
        from selenium.webdriver import ActionChains

        words = self.all("#words button")
        chain = ActionChains(self.driver).click_and_hold(words[first])
        for word in words[first + 1 : last + 1]:
            chain = chain.move_to_element(word)
        chain.release().perform()

    def cell(self, start: int, end: int):
        return self.one(f".chart .cell[data-start='{start}'][data-end='{end}']")

    def press(self, *keys: str, element=None) -> None:
        (element or self.driver.switch_to.active_element).send_keys(*keys)

    def check_quiet(self) -> None:
        """Neither the page nor its policy has complained."""
        assert self.one("#problem").text == ""
        assert [entry for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


@pytest.fixture(scope="module")
def driver(open_browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("downloads")
    found = open_browser(downloads=folder)
    found.downloads = folder
    return found


@pytest.fixture
def page(driver, address: str) -> Page:
    return Page(driver, address)


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


def test_several_sentences(page: Page) -> None:
    page.one("#sentence").send_keys("the dog saw a cat\nthe old cat")
    page.wait(lambda: [item.text for item in page.all("#words button")] == ["the", "old", "cat"])
    lines = page.wait(lambda: page.all("#lines button"))
    assert [line.text for line in lines] == ["the dog saw a cat", "the old cat"]
    lines[0].click()
    page.wait(lambda: len(page.all("#words button")) == 5 and len(page.all(".tree text.word")) == 5)


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


def test_by_keyboard_alone(page: Page) -> None:
    from selenium.webdriver import Keys

    page.type("the old dog saw")
    word = page.all("#words button")[0]
    page.driver.execute_script("arguments[0].focus()", word)
    page.press(Keys.ARROW_RIGHT)
    page.press(Keys.SHIFT + Keys.ARROW_RIGHT)
    assert "[1, 3]" in page.one("#selected").text
    page.press(Keys.TAB)  # the words are one stop, whatever their number; then the explanation and the buttons
    assert page.driver.switch_to.active_element.tag_name == "summary"
    page.press(Keys.TAB)
    assert page.driver.switch_to.active_element.text == "Require"
    page.press(Keys.ENTER)
    page.wait(lambda: page.all("#constraints .required"))
    page.settle()
    top = page.cell(0, 4)
    page.driver.execute_script("arguments[0].focus()", top)
    page.press(Keys.ARROW_DOWN)
    page.wait(lambda: "[0, 3]" in page.one(".details").text)
    page.press(Keys.ARROW_RIGHT)
    page.wait(lambda: "[1, 4]" in page.one(".details").text)
    page.press(Keys.ENTER)
    assert "[1, 4]" in page.one("#selected").text


def test_a_hostile_sentence_is_text(page: Page) -> None:
    page.type("<img src=x onerror=alert(1)> </svg><script>alert(2)</script> dog &amp; cat")
    assert "<img" in page.one(".tree").text
    assert page.all(".tree img, .tree script") == []
    page.check_quiet()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("light", {}),
        ("dark", {"dark": True}),
        ("phone", {"width": 390, "height": 844}),
        ("phone-dark", {"width": 390, "height": 844, "dark": True}),
    ],
)
def test_accessible_and_readable(open_browser, address: str, axe: str, screenshot, name: str, size: dict) -> None:
    """No serious or critical violation by axe, nothing wider than the window; with a dialog open, too."""
    page = Page(open_browser(**size), address)
    page.choose("#compare", "second")
    page.one("[value=viterbi]").click()
    page.type(SENTENCE)
    page.wait(lambda: len(page.all(".chart svg")) == 2)
    page.wait(lambda: page.all(".trees details"))
    page.driver.execute_script(
        "document.querySelectorAll('.trees details, .help').forEach((item) => { item.open = true; })"
    )
    page.settle()
    screenshot(page.driver, f"page-{name}")
    assert page.driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert serious(page, axe) == []
    page.driver.execute_script("document.querySelector('.tree [data-symbol]').dispatchEvent(new MouseEvent('click'))")
    page.wait(lambda: page.all("dialog[open] table"))
    screenshot(page.driver, f"symbol-{name}")
    assert serious(page, axe) == []
    page.check_quiet()


def serious(page: Page, axe: str) -> list[str]:
    """What axe finds that keeps people from using the page."""
    page.driver.execute_script(axe)
    found = page.driver.execute_async_script("axe.run(document).then(arguments[arguments.length - 1])")
    return [
        f"{item['id']}: {node['html'][:200]}"
        for item in found["violations"]
        if item["impact"] in ("serious", "critical")
        for node in item["nodes"]
    ]


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


@pytest.mark.parametrize("width", [1280, 390])
def test_long_sentences_fit(open_browser, address: str, screenshot, width: int) -> None:
    sentence = " ".join(["the old dog saw the cat in the garden and"] * 6)
    page = Page(open_browser(width, 900), address)
    page.one("#sentence").send_keys(sentence)
    page.wait(lambda: len(page.words()) == 60 and page.all(".chart svg"))
    page.settle()
    screenshot(page.driver, f"long-{width}")
    assert page.driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    # The words are in sight without scrolling, the triangle's lowest row among them.
    script = """const place = document.querySelector(".chart"); const view = place.getBoundingClientRect();
        const cell = place.querySelector("[data-start='0'][data-end='2']").getBoundingClientRect();
        return cell.left >= view.left - 1 && cell.bottom <= view.bottom + 1 && cell.top >= view.top"""
    assert page.driver.execute_script(script)
    if width > 1000:
        top = page.cell(0, 60).rect
        view = page.one(".chart").rect
        assert view["y"] - 1 <= top["y"]
        assert top["x"] + top["width"] <= view["x"] + view["width"] + 1
    before = page.one(".tree svg").size["width"]
    smaller, fit, larger = page.all(".tree-card .zoom button")
    larger.click()
    assert page.one(".tree svg").size["width"] > before
    fit.click()
    assert page.one(".tree svg").size["width"] <= page.one(".tree").size["width"] + 1
    smaller.click()
    assert page.one(".tree svg").size["width"] < page.one(".tree").size["width"]


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


def test_hovering_is_linked(page: Page) -> None:
    from selenium.webdriver import ActionChains

    page.type(SENTENCE)
    page.settle()
    start, end = min(page.tree_spans(), key=lambda span: span[1] - span[0])
    node = page.one(f".tree circle[data-start='{start}'][data-end='{end}']")
    ActionChains(page.driver).move_to_element(node).perform()
    page.wait(lambda: "here" in page.cell(start, end).get_attribute("class"))
    assert len(page.all(".surprisal .bar.here")) == end - start
    assert len(page.all("#words .here")) == end - start
    ActionChains(page.driver).move_to_element(page.one("h1")).perform()
    page.wait(lambda: not page.all(".here"))


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
