"""The shares of the inside algorithm on a CPU are of everything, and are recorded."""

import csv
import sys
from pathlib import Path

import pytest

from simplepcfg.benchmarking.sizes import Size

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import inside_cpu_parts


def test_shares_add_up() -> None:
    shares = inside_cpu_parts.measured_shares(Size(2, 5, 8, 9), repeats=1)
    assert sum(shares.values()) == pytest.approx(1)
    assert all(share > 0 for share in shares.values())


@pytest.mark.usefixtures("one_thread")
def test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    arguments = ["inside_cpu_parts.py", "--sizes", "2,4,5,6", "--repeats", "1", "--csv", str(path)]
    monkeypatch.setattr(sys, "argv", arguments)
    inside_cpu_parts.main()
    (row,) = csv.DictReader(path.open())
    assert row["N"] == "5"
    assert float(row["most_by_split_sums"]) >= 1
    assert "split_sums_percent" in capsys.readouterr().out
