"""Headless Chromium before a real server with two tiny runs; `make test-browser` installs what is needed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from browser_page import Page
from tiny_runs import make_tiny_run

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
# Where `make test-browser` puts axe-core; it is used in tests alone.
AXE = Path(os.environ.get("AXE_CORE", Path(__file__).parents[2] / ".browser/node_modules/axe-core/axe.min.js"))


@pytest.fixture(scope="session")
def axe() -> str:
    """The script that looks for what keeps people from using a page."""
    if not AXE.is_file():
        raise FileNotFoundError(f"{AXE}: axe-core is missing; run `make test-browser`, which installs it")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def screenshot() -> Callable:
    """Keep a picture of the page where SCREENSHOTS says, to be looked at."""

    def keep(driver, name: str) -> None:
        if folder := os.environ.get("SCREENSHOTS"):
            driver.save_screenshot(str(Path(folder) / f"{name}.png"))

    return keep


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], tuple[str, subprocess.Popen]]]:
    """Start a server with the runs `first` and `second`, and `raw`, which takes sentences as they are written."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        make_tiny_run(folder / "first", "training.epochs=3"),
        make_tiny_run(folder / "second", "model.nonterminals=6", "seed=3"),
        make_tiny_run(folder / "raw", "data.tokenize=true"),
    ]
    started = []

    def start() -> tuple[str, subprocess.Popen]:
        process = subprocess.Popen(
            [sys.executable, "-m", "simplepcfg", "serve", *map(str, runs), "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip(), process

    yield start
    for process in started:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="session")
def address(start_server: Callable[[], tuple[str, subprocess.Popen]]) -> str:
    """Address of a server that stays."""
    return start_server()[0]


@pytest.fixture(scope="session")
def open_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable]:
    """Start Chromium with a profile of its own: width and height of the window, and whether dark is preferred."""
    from selenium import webdriver

    started = []

    def start(width: int = 1280, height: int = 1000, *, dark: bool = False, downloads: Path | None = None):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        profile = tmp_path_factory.mktemp("profile")
        for argument in [*ARGUMENTS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
        )
        started.append(driver)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        if downloads is not None:
            allowed = {"behavior": "allow", "downloadPath": str(downloads)}
            driver.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
        if width < 500:  # narrower than a window may be
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        return driver

    yield start
    for driver in started:
        driver.quit()


@pytest.fixture(scope="session")
def driver(open_browser, tmp_path_factory):
    """A browser that keeps what is downloaded."""
    folder = tmp_path_factory.mktemp("downloads")
    found = open_browser(downloads=folder)
    found.downloads = folder
    return found


@pytest.fixture
def page(driver, address: str) -> Page:
    return Page(driver, address)
