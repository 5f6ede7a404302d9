"""The page as a person uses it: what is typed, seen, hovered, dragged and pressed."""

import time
from collections.abc import Callable

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
