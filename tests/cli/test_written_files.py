"""Every option that names a file to write: a link stays a link, and a device a device."""

import os
from pathlib import Path

import pytest

from command_calls import Call

COMMANDS: dict[str, tuple[list[str], list[str]]] = {  # what is asked, and the options that name a file
    "report": (["report", "RUN"], ["--out"]),
    "evaluate": (["evaluate", "RUN", "TREES"], ["--json", "--write-labels"]),
    "minimal pairs": (["test", "minimal-pairs", "RUN", "PAIRS"], ["--json", "--csv"]),
    "sample": (["sample", "RUN", "--count", "2"], ["--json"]),
    "n-gram model": (["baseline", "ngram", "--like", "RUN", "--train", "TEXT"], ["--out"]),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and devices")
@pytest.mark.parametrize("name", COMMANDS)
def test_links_are_written_through(
    name: str, call: Call, tiny_run: Path, trees_file: Path, text_file: Path, tmp_path: Path
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("The dog sleeps.\tDog the sleeps.\n")
    places = {"RUN": tiny_run, "TREES": trees_file, "TEXT": text_file, "PAIRS": pairs}
    words, options = COMMANDS[name]
    command = [places.get(word, word) for word in words]
    links = [tmp_path / f"link{option}" for option in options]
    for link in links:
        link.symlink_to(tmp_path / f"file{link.name}")
    given = [word for pair in zip(options, links, strict=True) for word in pair]
    result = call(*command, *given)
    assert result.code == 0, result.err
    for link in links:
        assert link.is_symlink()
        assert (tmp_path / f"file{link.name}").stat().st_size > 10
    for option in options:
        result = call(*command, option, "/dev/null")
        assert (result.code == 0) == (name != "n-gram model"), result.err  # a model is refused, being no stream
        assert Path("/dev/null").is_char_device()
