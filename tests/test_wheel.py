"""Two builds of the same files are the same bytes, whenever and wherever they are made."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "dist", "shared", "runs", ".hypothesis")

pytestmark = pytest.mark.slow


def build(source: Path, target: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(source / "out")]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = (source / "out").glob("*.whl" if target == "wheel" else "*.tar.gz")
    return found


def copy(place: Path, age: int) -> Path:
    shutil.copytree(ROOT, place, ignore=NOT_COPIED)
    for path in place.rglob("*"):
        os.utime(path, (age, age))
    return place


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_two_builds_are_equal(tmp_path: Path, target: str) -> None:
    one = build(copy(tmp_path / "one", 1_500_000_000), target)
    other = build(copy(tmp_path / "another-place", 1_700_000_000), target)
    assert one.name == other.name
    assert hashlib.sha256(one.read_bytes()).digest() == hashlib.sha256(other.read_bytes()).digest()


def test_a_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    names = zipfile.ZipFile(build(copy(tmp_path / "one", 1_500_000_000), "wheel")).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"simplepcfg"}
    assert not [name for name in names if name.endswith((".pyc", ".pth", ".so"))]  # nothing runs on installation
    assert "simplepcfg/py.typed" in names
