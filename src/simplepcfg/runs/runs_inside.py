"""Folders that hold nothing but runs, such as those of several seeds."""

from __future__ import annotations

import re
from pathlib import Path

from simplepcfg.runs.run_folder import RunFolder


def runs_inside(name: str) -> list[str]:
    """Return the finished runs in a folder that is no run itself, by name and with numbers in their order."""
    folder = Path(name)
    try:
        if not folder.is_dir() or RunFolder(folder).holds_a_run():
            return []
        return [str(inner) for inner in sorted(folder.iterdir(), key=_order) if RunFolder(inner).model.is_file()]
    except OSError:
        return []


def _order(path: Path) -> list[tuple[int, str]]:
    """Return the key by which seed-10 comes after seed-9."""
    parts = re.split(r"([0-9]+)", path.name)
    return [(int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in parts]
