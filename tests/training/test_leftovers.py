"""What a process left that was killed as it began does not stand in the way of the next one."""

from pathlib import Path

from simplepcfg.plans.state import ReproductionFolder


def test_a_reproduction_killed_as_it_began(tmp_path: Path) -> None:
    folder = ReproductionFolder(tmp_path / "out", ("perplexity",))
    folder.path.mkdir()
    (folder.path / "reproduction.toml.123-0.writing").write_text("table = ")
    folder.open("lm", tmp_path, [], {})
    assert [path.name for path in folder.path.iterdir()] == ["reproduction.toml"]
