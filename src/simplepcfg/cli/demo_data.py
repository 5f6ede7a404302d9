"""The built-in treebank as files in a run's folder, so that whatever the demo prints can be pasted."""

from pathlib import Path

from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.data.trees import SpanTree
from simplepcfg.files import write_text
from simplepcfg.runs.config.schema import RunConfig

# Sentences and seed of each part; the parts are independent draws from one grammar.
TRAIN, VALID, TEST = (8000, 1), (500, 2), (500, 3)


def train_file(folder: Path) -> Path:
    """Return the path of the raw training sentences, one a line."""
    return folder / "train.txt"


def valid_file(folder: Path) -> Path:
    """Return the path of the raw validation sentences."""
    return folder / "valid.txt"


def test_file(folder: Path) -> Path:
    """Return the path of the gold trees that training never sees."""
    return folder / "test.trees"


def write_treebank(folder: Path) -> None:
    """Write whichever of the three files is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, size in ((train_file(folder), TRAIN), (valid_file(folder), VALID)):
        if not path.exists():
            write_text(path, "".join(" ".join(tree.words) + "\n" for tree in generate_treebank(*size)))
    if not test_file(folder).exists():
        write_text(test_file(folder), "".join(tree.to_brackets() + "\n" for tree in test_trees()))


def test_trees() -> list[SpanTree]:
    """Return the gold trees of the test file."""
    return generate_treebank(*TEST)


def with_builtin_text(config: RunConfig, folder: Path) -> RunConfig:
    """Return the configuration with the treebank's files as its text."""
    text = {"train": str(train_file(folder)), "valid": str(valid_file(folder))}
    return config.model_copy(update={"data": config.data.model_copy(update=text)})
