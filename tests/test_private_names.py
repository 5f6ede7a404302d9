"""A name that begins with an underscore belongs to its folder: no module of another one imports or calls it."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import simplepcfg

SOURCE = Path(simplepcfg.__file__).parent
FILES = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}


def folder_of(file: str) -> str:
    """`ops.inside` of ops/inside/layout.py; the package's own folder is empty."""
    return ".".join(Path(file).parent.parts)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_nodes(tree: ast.AST) -> list[ast.AST]:
    """Imports, and whatever has a private name; a walk takes long, so there is one."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        or is_private(getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None) or "")
    ]


def defined_names(nodes: list[ast.AST]) -> Iterator[str]:
    """Private functions, classes, variables and attributes that a file makes."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def borrowed_names(files: dict[str, str]) -> list[str]:
    """Each private name that is imported from another folder, or asked of an object and made in other folders only."""
    nodes = {file: private_nodes(ast.parse(text, file)) for file, text in files.items()}
    homes: dict[str, set[str]] = defaultdict(set)
    for file, those in nodes.items():
        for name in defined_names(those):
            homes[name].add(folder_of(file))
    modules = {".".join(Path(file).with_suffix("").parts).removesuffix(".__init__"): file for file in files}
    found = []
    for file, those in nodes.items():
        for node in those:
            if isinstance(node, ast.ImportFrom):
                base = (node.module or "").removeprefix("simplepcfg").removeprefix(".")
                home = folder_of(modules.get(base, file))
                names = [alias.name for alias in node.names if home != folder_of(file)]
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names = [node.attr] if homes[node.attr] and folder_of(file) not in homes[node.attr] else []
            else:
                continue
            found += [f"{file}:{node.lineno} takes {name}" for name in names if is_private(name)]
    return found


def test_private_names_stay_in_their_folder() -> None:
    assert {"inference/run.py", "ops/inside/layout.py"} <= set(FILES)
    assert borrowed_names(FILES) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("from simplepcfg.ops.inside.made import _hidden", 1),
        ("from simplepcfg.ops.inside import _hidden", 1),
        ("from simplepcfg.ops.inside.made import Chart\nChart()._fill()", 1),
        ("from simplepcfg.ops.inside.made import shown\nshown()", 0),
        ("from torch import Tensor, _foreach_copy_\nTensor()._made_elsewhere()", 0),
        ("class Other:\n    def _fill(self): ...\nOther()._fill()", 0),
    ],
)
def test_the_check_sees_what_it_should(source: str, count: int) -> None:
    made = "def _hidden(): ...\ndef shown(): ...\nclass Chart:\n    def _fill(self): ..."
    files = {"ops/inside/made.py": made, "ops/inside/__init__.py": "from simplepcfg.ops.inside.made import _hidden"}
    assert len(borrowed_names(files | {"ops/prefix/taker.py": source})) == count
