"""Imports run one way: cli → plans → inference, training → linguistics → evaluation → runs → … → grammars → ops."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import simplepcfg

PACKAGE = "simplepcfg"
SOURCE = Path(simplepcfg.__file__).parent

# The parts up to evaluation, those beside the layers included.
UP_TO_EVALUATION = {
    "errors",
    "files",
    "progress",
    "drawing",
    "pretrained",
    "ops",
    "grammars",
    "models",
    "data",
    "runs",
    "evaluation",
}
# What each part may import beside itself: every part of the package is named, a new one must be added here.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    # Folders of data, and where they lie.
    "pretrained": set(),
    # Pictures are made of plain values.
    "drawing": {"errors"},
    # Files that are written in one step.
    "files": {"errors"},
    # Stages of long computations, told to whoever shows them.
    "progress": set(),
    "ops": {"errors"},
    "data": {"errors", "files", "progress", "drawing"},
    "configs": set(),
    "grammars": {"errors", "ops"},
    "models": {"errors", "ops", "grammars"},
    "runs": UP_TO_EVALUATION - {"drawing", "evaluation"},
    "evaluation": UP_TO_EVALUATION - {"drawing"},
    "linguistics": UP_TO_EVALUATION - {"drawing"},
    # Neighbours: neither imports the other.
    "training": UP_TO_EVALUATION,
    "inference": UP_TO_EVALUATION | {"linguistics"},
    # `fit`: trains and loads.
    "fitting": {"errors", "data", "runs", "training", "inference"},
    "reports": UP_TO_EVALUATION | {"inference"},
    "serving": UP_TO_EVALUATION | {"inference"},
    "plans": UP_TO_EVALUATION | {"training", "inference"},
}
TOP = {"cli", "__main__"}
# The folders of ops in the order of their imports: each may import those before it and the files at the root of ops,
# which import no folder.
OPS = (
    "cuda_graphs",
    "inside",
    "sharded_inside",
    "neural",
    "prefix",
    "marginals",
    "entropy",
    "viterbi",
    "sample",
    "dense",
    "forward",
)


def module_name(path: Path) -> str:
    """`.../ops/inside/__init__.py` is simplepcfg.ops.inside."""
    parts = [PACKAGE, *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


@cache
def parsed(path: Path) -> ast.Module:
    """A file is asked about once for each module that leads to it."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(module: str, only_on_import: bool = False) -> tuple[tuple[str, int], ...]:
    """The modules that a file imports anywhere, with the lines, or only those loaded together with it."""
    return _imports(module, FILES[module], only_on_import)


@cache
def _imports(module: str, path: Path, only_on_import: bool) -> tuple[tuple[str, int], ...]:
    return tuple(_walk_imports(module, path, only_on_import))


def _walk_imports(module: str, path: Path, only_on_import: bool) -> Iterator[tuple[str, int]]:
    waiting: list[ast.AST] = [parsed(path)]
    while waiting:
        node = waiting.pop()
        if only_on_import and (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        ):
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute_base(module, path, node)
            # `from package import name` may import the module package.name, so both are counted.
            yield base, node.lineno
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value), node.lineno


def absolute_base(module: str, path: Path, node: ast.ImportFrom) -> str:
    """The absolute name in a `from … import`, relative ones resolved."""
    if not node.level:
        return node.module or ""
    above = module.split(".") + ([""] if path.name == "__init__.py" else [])
    return ".".join([*above[: -node.level], *([node.module] if node.module else [])])


def part_of(module: str) -> str:
    """The part of the package that a module belongs to: ops, data, …; empty for the package itself."""
    return [*module.split("."), ""][1]


def forbidden_imports(module: str) -> list[str]:
    part = part_of(module)
    if part not in ALLOWED:
        return []
    found = []
    for target, line in imports(module):
        if target.split(".")[0] != PACKAGE or target == PACKAGE or part_of(target) == "version":
            continue
        if part_of(target) not in ALLOWED[part] | {part}:
            found.append(f"{module}:{line} imports {target}")
    return found


def modules_imported(module: str) -> set[str]:
    """The package's modules that a file imports anywhere, for type checkers alone included.

    Of `from package import name` it is package.name where that is a module, and package otherwise.
    """
    path, found = FILES[module], set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = absolute_base(module, path, node)
            names = (f"{base}.{alias.name}" for alias in node.names)
            found |= {name if name in FILES else base for name in names}
    return found & set(FILES)


def import_cycles(modules: Iterable[str]) -> list[list[str]]:
    """Groups of modules that import each other, in whatever number of steps."""
    direct = {module: modules_imported(module) for module in FILES}
    reached: dict[str, set[str]] = {}
    for module in modules:
        reached[module], waiting = set(), [module]
        while waiting:
            new = direct[waiting.pop()] - reached[module]
            reached[module] |= new
            waiting += new
    cycles = {
        frozenset(other for other in reached[module] if module in reached.get(other, ()))
        for module in reached
        if module in reached[module]
    }
    return sorted(sorted(cycle) for cycle in cycles)


def loads_triton(module: str) -> bool:
    """Whether importing a module imports triton, itself or through the package's other modules."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name.split(".")[0] == "triton":
            return True
        if name in seen:
            continue
        seen.add(name)
        if "." in name:
            waiting.append(name.rpartition(".")[0])  # a module's parents are imported before it
        if name in FILES:
            waiting += [target for target, _ in imports(name, only_on_import=True)]
    return False


def test_every_part_is_named() -> None:
    parts = {part_of(module) for module in FILES if module != PACKAGE}
    assert parts == (set(ALLOWED) - {"configs"}) | TOP
    assert f"{PACKAGE}.errors" in {target for target, _ in imports(f"{PACKAGE}.data.readers")}


def test_no_two_modules_import_each_other() -> None:
    """Each group that closes a circle is named."""
    assert import_cycles(FILES) == []


@pytest.mark.parametrize("part", ALLOWED)
def test_arrows(part: str) -> None:
    """Each forbidden import is named."""
    assert [line for module in FILES if part_of(module) == part for line in forbidden_imports(module)] == []


def folder_of_ops(module: str) -> int:
    """The place in OPS of a module of ops; -1 for the files at its root, and for what is outside of ops."""
    parts = module.split(".")
    is_in_folder = parts[1:2] == ["ops"] and len(parts) > 2 and not (SOURCE / "ops" / f"{parts[2]}.py").exists()
    assert not is_in_folder or parts[2] in OPS, f"ops/{parts[2]}: add it to OPS, after what it imports"
    return OPS.index(parts[2]) if is_in_folder else -1


def test_folders_of_ops_are_in_order() -> None:
    """Each import of a folder that comes later is named."""
    ops = [module for module in FILES if part_of(module) == "ops"]
    upward = [
        f"{module}:{line} imports {target}"
        for module in ops
        for target, line in imports(module)
        if folder_of_ops(target) > folder_of_ops(module)
    ]
    assert upward == []
    assert {module.split(".")[2] for module in ops if folder_of_ops(module) >= 0} == set(OPS)


def test_only_the_command_line_imports_the_command_line() -> None:
    below = [module for module in FILES if part_of(module) not in ("cli", "__main__")]
    assert [m for m in below for target, _ in imports(m) if target.startswith(f"{PACKAGE}.cli")] == []


def test_triton_is_named_under_ops_only() -> None:
    users = {module for module in FILES for target, _ in imports(module) if target.split(".")[0] == "triton"}
    assert sorted(module for module in users if part_of(module) != "ops") == []


def test_triton_is_imported_lazily() -> None:
    """The CPU install has no triton: only modules in ops that are themselves imported lazily may load it."""
    loading = [module for module in FILES if loads_triton(module)]
    assert [module for module in loading if part_of(module) != "ops"] == []
    assert [module for module in loading if FILES[module].name == "__init__.py"] == []


@pytest.mark.parametrize(
    ("module", "source", "named"),
    [
        ("ops.bad", "from simplepcfg.grammars.simple import SimpleGrammar", ["simplepcfg.grammars.simple"]),
        ("ops.inside.bad", "from ...models import build_model", ["simplepcfg.models"]),
        ("data.bad", "def f():\n    import simplepcfg.runs.config.schema", ["simplepcfg.runs.config.schema"]),
        ("data.bad", "from simplepcfg import ops", ["simplepcfg.ops"]),
        (
            "models.bad",
            "import importlib\nimportlib.import_module('simplepcfg.data.trees')",
            ["simplepcfg.data"],
        ),
        ("models.good", "from simplepcfg.errors import InputError\nfrom ..grammars import simple", []),
    ],
)
def test_the_check_sees_what_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, source: str, named: list[str]
) -> None:
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")
    monkeypatch.setitem(FILES, f"{PACKAGE}.{module}", path)
    found = forbidden_imports(f"{PACKAGE}.{module}")
    assert bool(found) == bool(named)
    assert all(any(name in line for line in found) for name in named)


def test_the_lazy_check_follows_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "simplepcfg.ops.a": "import triton.language as tl",
        "simplepcfg.ops.b": "from simplepcfg.ops import a",
        "simplepcfg.ops.c": "def launch():\n    from simplepcfg.ops import a",
    }
    for name, source in sources.items():
        path = tmp_path / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        monkeypatch.setitem(FILES, name, path)
    assert [loads_triton(name) for name in sources] == [True, True, False]


def test_the_cycle_check_counts_every_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three modules in a circle: by a function, for a type checker, and as a name in a package; a fourth is outside."""
    sources = {
        "simplepcfg.ops.a": "def f():\n    from simplepcfg.ops.b import g",
        "simplepcfg.ops.b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import c",
        "simplepcfg.ops.c": "import simplepcfg.ops.a",
        "simplepcfg.ops.d": "from simplepcfg.ops import a, b, c",
    }
    for name, source in sources.items():
        path = tmp_path / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        monkeypatch.setitem(FILES, name, path)
    assert import_cycles(sources) == [["simplepcfg.ops.a", "simplepcfg.ops.b", "simplepcfg.ops.c"]]
