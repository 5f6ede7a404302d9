"""Seconds from the last key to the tree on the page, with `english` in headless Chromium.

    python benchmarks/page_typing.py [--repeats 3] [--key 0.06]

Needs what `make test-browser` installs. Types sentences of 7, 20 and 60 words as a person does, a key every 60 ms, and
measures in the page itself: from the last input event until the tree of the whole sentence stands there. Appends a row
a length to results/page_typing.csv.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from simplepcfg.benchmarking.report import append_rows, environment

RESULTS = Path(__file__).parent / "results" / "page_typing.csv"
TEXT = (
    "the old dog that my sister found in the garden of the house near the river saw a cat and then it ran to the big "
    "tree which stood behind the wall and slept there for the whole day because it was very tired of all the noise "
    "that the children made when they played with the ball on the"
)
WATCH = """
window.keyAt = window.treeAt = 0;
document.getElementById("sentence").addEventListener("input", () => {
  window.keyAt = performance.now();
  window.treeAt = 0;
});
new MutationObserver(() => {
  if (document.querySelectorAll(".tree svg .word").length === arguments[0]) window.treeAt = performance.now();
}).observe(document.querySelector(".tree"), { childList: true });
"""


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--key", type=float, default=0.06, help="seconds between keys")
    arguments = parser.parse_args()
    plain = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-m", "simplepcfg", "serve", "english", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=plain) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        driver = start_browser()
        try:
            rows = [measure(driver, address, length, arguments) for length in (7, 20, 60)]
        finally:
            driver.quit()
            server.terminate()
    append_rows(RESULTS, rows)


def start_browser() -> Any:
    """Start headless Chromium."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver") or ""))


def measure(driver: Any, address: str, length: int, arguments: argparse.Namespace) -> dict[str, object]:
    """Type a sentence of so many words several times."""
    seconds = []
    for _ in range(arguments.repeats):
        driver.get("about:blank")
        driver.get(f"{address}/#s=")
        while not driver.find_elements("css selector", "body[data-ready]"):
            time.sleep(0.05)
        driver.execute_script(WATCH, length)
        box = driver.find_element("css selector", "#sentence")
        for character in " ".join(TEXT.split()[:length]):
            began = time.monotonic()
            box.send_keys(character)
            time.sleep(max(0.0, arguments.key - (time.monotonic() - began)))
        while not (moment := driver.execute_script("return window.treeAt && (window.treeAt - window.keyAt)")):
            time.sleep(0.05)
        seconds.append(moment / 1000)
    load = os.getloadavg()[0]
    print(f"{length} words: {', '.join(f'{value:.2f}' for value in seconds)} s; load average {load:.1f}", flush=True)
    return {
        "words": length,
        "repeats": arguments.repeats,
        "median_s": round(statistics.median(seconds), 2),
        "worst_s": round(max(seconds), 2),
        "load_average": round(load, 1),
        **environment(torch.device("cpu")),
        "threads": len(os.sched_getaffinity(0)),  # of the server, which is started as plainly as by a user
    }


if __name__ == "__main__":
    main()
