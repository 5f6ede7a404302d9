"""Make the pictures of the documentation from `english`, the grammar that comes with the package.

    python docs/images/make_pictures.py            # parse.svg, bracketings.svg, surprisal.svg
    python docs/images/make_pictures.py --page     # also page.png, by Chromium and selenium: see make test-browser

They are what the grammar says: nothing in them is drawn by hand.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import simplepcfg
from simplepcfg.drawing import span_chart, standalone, surprisal_bars, tree_picture
from simplepcfg.drawing.svg import picture, placed, size_of, text
from simplepcfg.files import write_text
from simplepcfg.inference.run import Run

HERE = Path(__file__).parent
AMBIGUOUS = "she saw the girl with the telescope"
GARDEN_PATH = "the old man who lives next door bought a new car"


def side_by_side(pictures: list[str], label: str, gap: float = 24.0) -> str:
    """Return several pictures in one, from left to right, centred at the middle of the tallest."""
    tallest, parts, x = max(size_of(svg)[1] for svg in pictures), [], 0.0
    for svg in pictures:
        width, height = size_of(svg)
        parts.append(placed(svg, x, (tallest - height) / 2))
        x += width + gap
    return picture(parts, x - gap, tallest, label)


def draw_pictures(run: Run) -> None:
    """Write the pictures that need no browser."""
    (tree,), (binary,) = run.parse_spans([AMBIGUOUS]), run.parse_spans([AMBIGUOUS], labels=False)
    chart = run.chart(AMBIGUOUS)
    spans = {(i, j) for i, j, _ in binary.spans}
    told = f"the tree of “{AMBIGUOUS}”, and the probability of each span"
    parse = [tree_picture(tree), span_chart(chart.words, chart.table(), tree=spans)]
    write_text(HERE / "parse.svg", standalone(side_by_side(parse, told)) + "\n")

    captioned = []
    for item in run.bracketings(AMBIGUOUS, 3):
        tree_svg = tree_picture(item.tree, wrong={(i, j) for i, j, _ in item.tree.spans} - spans)
        width, height = size_of(tree_svg)
        caption = f"{100 * item.probability:.0f} %"
        parts = [text(caption, 12.0, 16.0, class_="muted"), placed(tree_svg, 0, 24)]
        captioned.append(picture(parts, width, height + 24, caption))
    told = f"three bracketings of “{AMBIGUOUS}” with their probabilities; red: not in the first"
    write_text(HERE / "bracketings.svg", standalone(side_by_side(captioned, told)) + "\n")

    (records,) = run.surprisal([GARDEN_PATH], entropies=True)
    bars = surprisal_bars(
        [record.word for record in records],
        [record.surprisal for record in records],
        [record.entropy for record in records],
    )
    write_text(HERE / "surprisal.svg", standalone(bars) + "\n")


def photograph_page() -> None:
    """Write page.png: the local page as it opens."""
    from selenium import webdriver

    command = [sys.executable, "-m", "simplepcfg", "serve", "english", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        for argument in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,1000"):
            options.add_argument(argument)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver") or ""))
        try:
            driver.get(address)
            while not driver.find_elements("css selector", ".trees svg"):
                time.sleep(0.1)
            time.sleep(0.5)  # until nothing moves
            driver.save_screenshot(str(HERE / "page.png"))
        finally:
            driver.quit()
            server.terminate()


if __name__ == "__main__":
    draw_pictures(simplepcfg.load("english", "cpu"))
    if "--page" in sys.argv:
        photograph_page()
