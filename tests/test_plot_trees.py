"""The picture of S-F1 against perplexity has a point for every run, and is the one that the documentation shows."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "experiments"))
import plot_trees


def test_picture_is_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = plot_trees.OUT.read_text(encoding="utf-8")
    monkeypatch.setattr(plot_trees, "OUT", tmp_path / "picture.svg")
    plot_trees.main()
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8") == shown
    assert shown.count("<circle") == len(plot_trees.of_forest()) + len(plot_trees.of_trees()) > 20
