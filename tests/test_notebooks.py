"""The example notebooks run from beginning to end, each in a folder of its own."""

import json
from pathlib import Path

import pytest
import torch

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))


def cells(path: Path, kind: str) -> list[str]:
    book = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == kind]


def test_there_are_three() -> None:
    assert [path.stem for path in EXAMPLES] == ["inside_in_your_model", "psycholinguists_day", "train_on_your_text"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_code_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell by cell in this process, which is quick; what a cell shows is made as a notebook would make it."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    space: dict[str, object] = {"__name__": "__main__"}
    try:
        for number, source in enumerate(cells(path, "code")):
            *_, last = source.splitlines()
            exec(compile(source, f"{path.name}[{number}]", "exec"), space)
            if last.isidentifier() or last.startswith(("run.", "SVG(")):
                shown = eval(last, space)
                for name in ("_repr_svg_", "_repr_html_"):
                    if hasattr(shown, name):
                        assert "<svg" in getattr(shown, name)()
    finally:
        torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_in_a_real_kernel(path: Path, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)
