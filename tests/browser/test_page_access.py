"""The page by keyboard, on small windows and in dark colours, with long and with hostile sentences."""

import pytest

from browser_page import SENTENCE, Page

pytestmark = pytest.mark.browser


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
