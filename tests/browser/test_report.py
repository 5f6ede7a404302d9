"""A report in a real browser: it opens as a file, complains of nothing, and people can read it."""

from pathlib import Path

import pytest

from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.inference.run import load
from simplepcfg.reports import make_report
from tiny_runs import make_tiny_run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    runs = {"tiny": load(make_tiny_run(folder / "tiny", "training.epochs=3"), "cpu")}
    path = folder / "report.html"
    path.write_text(make_report(runs, generate_treebank(40, seed=9)).to_html(), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "size"), [("light", {}), ("dark", {"dark": True}), ("phone", {"width": 390, "height": 844})]
)
def test_report(open_browser, axe: str, screenshot, report: Path, name: str, size: dict) -> None:
    driver = open_browser(**size)
    driver.get(report.as_uri())
    assert len(driver.find_elements("css selector", "figure svg")) >= 17
    assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    driver.execute_script(axe)
    found = driver.execute_async_script("axe.run(document).then(arguments[arguments.length - 1])")
    assert [item["id"] for item in found["violations"] if item["impact"] in ("serious", "critical")] == []
    screenshot(driver, f"report-{name}")
