"""The version of the package and the commit of its source, which files that it writes record."""

import subprocess
from pathlib import Path

__version__ = "0.2.0"


def current_commit() -> str:
    """Return the commit of the package's source, marked if there are changes; "unknown" if it is not in git."""
    if not _git("ls-files", "__init__.py"):  # an installed copy, perhaps inside another repository
        return "unknown"
    # Changes of results do not count: rows are appended while measuring.
    changed = _git("status", "--porcelain", "-uno", ":(top)", ":(top,exclude)benchmarks/results")
    return _git("describe", "--always", "--exclude", "*") + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    """Return what git says of the package's folder, "" where there is no git or no repository."""
    try:
        folder = Path(__file__).parent
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""
