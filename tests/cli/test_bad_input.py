"""Hundreds of broken trees, texts, configurations and run folders: each gives one line, never a traceback."""

import gzip
import json
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import tomli_w
from safetensors.torch import load_file, save_file

from command_calls import Call
from simplepcfg.runs.config.keys import all_keys
from tiny_runs import SETTINGS


@dataclass(frozen=True)
class World:
    """Good input, and a folder for a spoilt copy of it."""

    folder: Path
    run: Path
    trees: Path
    text: Path

    def write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path

    def copy_run(self) -> Path:
        return Path(shutil.copytree(self.run, self.folder / "run"))


Arguments = list[Any]
Case = tuple[str, Callable[[World], Arguments]]


def tree_cases() -> Iterator[Case]:
    """Spoil one line of a good file of trees, then have it evaluated as gold and as predictions."""

    def spoil_line(content: bytes, index: int, change: Callable[[bytes], bytes]) -> bytes:
        lines = content.splitlines()
        lines[index] = change(lines[index])
        return b"\n".join(lines) + b"\n"

    changes: dict[str, Callable[[bytes], bytes]] = {
        "bracket-missing": lambda line: line[:-1],
        "bracket-too-many": lambda line: line + b")",
        "no-word": lambda line: line.replace(b"(. .)", b"(.)"),
        "two-words": lambda line: line.replace(b"(. .)", b"(. . .)"),
        "untagged": lambda line: line.replace(b"(. .)", b"stop (. .)"),
        "between": lambda line: b"words " + line,
        "after": lambda line: line + b" words",
        "not-utf8": lambda line: line.replace(b"(. .)", b"(. \xff)"),
        "nul": lambda line: line.replace(b"(. .)", b"(. \0)"),
    }
    for name, change in changes.items():
        for index in (0, 3, 11, 24):

            def as_gold(world: World, index: int = index, change: Any = change) -> Arguments:
                bad = world.write("bad.trees", spoil_line(world.trees.read_bytes(), index, change))
                return ["evaluate", "left-branching", bad]

            def as_predictions(world: World, index: int = index, change: Any = change) -> Arguments:
                return ["evaluate", world.trees, "--predictions", as_gold(world, index, change)[-1]]

            yield f"gold-{name}-{index}", as_gold
            yield f"predictions-{name}-{index}", as_predictions
    for name, content in {
        "empty": b"",
        "blank": b"\n \n",
        "one-bracket": b"(",
        "closing": b")",
        "hollow": b"()",
        "hollow-wrapped": b"(())",
        "label-only": b"(S)",
        "one-word": b"(S (NN dog))\n",
        "only-punctuation": b"(S (. .) (NN) (. .))",
        "only-traces": b"(S (NP (-NONE- *T*)))",
    }.items():
        yield (
            f"gold-{name}",
            lambda world, content=content: ["evaluate", "oracle", world.write("bad.trees", content)],
        )


def text_cases() -> Iterator[Case]:
    """Files that cannot be read, for every command that reads text."""
    commands: dict[str, Callable[[World, Path], Arguments]] = {
        "parse": lambda world, bad: ["parse", world.run, bad],
        "score": lambda world, bad: ["score", "--quiet", world.run, bad],
        "evaluate": lambda world, bad: ["evaluate", world.run, bad],
        "train": lambda world, bad: ["train", "sn-pcfg-small", "--train", bad, "--out", world.folder / "new"],
    }
    spoilt: dict[str, Callable[[World], Path]] = {
        "missing": lambda world: world.folder / "missing.txt",
        "folder": lambda world: world.folder,
        "not-utf8-first": lambda world: world.write("bad.txt", b"caf\xe9 au lait\n" + world.text.read_bytes()),
        "not-utf8-last": lambda world: world.write("bad.txt", world.text.read_bytes() + b"caf\xe9 au lait"),
        "utf16": lambda world: world.write("bad.txt", "the dog\n".encode("utf-16")),
        "nul": lambda world: world.write("bad.txt", b"the dog\nthe \0 dog\n"),
        "compressed": lambda world: world.write("bad.txt", gzip.compress(world.text.read_bytes())),
        "not-gzip": lambda world: world.write("bad.txt.gz", world.text.read_bytes()),
        "gzip-cut": lambda world: world.write("bad.txt.gz", gzip.compress(world.text.read_bytes())[:-20]),
        "gzip-empty": lambda world: world.write("bad.txt.gz", gzip.compress(world.text.read_bytes())[:4]),
        "below-a-file": lambda world: world.text / "bad.txt",
    }
    for what, make in spoilt.items():
        for name, command in commands.items():
            yield f"{name}-{what}", lambda world, make=make, command=command: command(world, make(world))
    for name in ("evaluate", "train"):
        for what, content in {"empty": b"", "blank": b"\n\n", "one-word": b"dog\ncat\n", "marks": b". ,\n"}.items():
            yield (
                f"{name}-{what}",
                lambda world, command=commands[name], content=content: command(world, world.write("bad.txt", content)),
            )


def config_cases() -> Iterator[Case]:
    """Wrong types, unknown keys and broken TOML; in a file and on the command line."""

    def with_file(content: str) -> Callable[[World], Arguments]:
        def make(world: World) -> Arguments:
            path = world.write("bad.toml", content.encode("utf-8", "surrogateescape"))
            return ["train", path, "--train", world.text, "--out", world.folder / "new"]

        return make

    def with_set(key: str, value: str) -> Callable[[World], Arguments]:
        return lambda world: [
            *("train", "sn-pcfg-small", "--train", world.text, "--out", world.folder / "new"),
            *("--set", f"{key}={value}"),
        ]

    for key in sorted({key.name: key for key in all_keys()}.values(), key=lambda key: key.name):
        if key.name in ("data.train", "data.valid"):  # given on the command line, which beats the file
            continue
        *tables, leaf = key.name.split(".")
        for number, value in enumerate(wrong_values(key.annotation)):
            nested: dict[str, Any] = {leaf: value}
            for table in reversed(tables):
                nested = {table: nested}
            yield f"file-{key.name}-{number}", with_file(tomli_w.dumps(nested))
            yield f"set-{key.name}-{number}", with_set(key.name, json.dumps(value))
        yield f"unknown-{key.name}", with_set(f"{key.name}x", "1")
    broken = ["seed = ", "= 3", "[data", "seed = 1\nseed = 2", 'name = "a', "seed = 01", "data = 3", "[seed]\nx = 1"]
    broken += ["[data]\n[data]", "\udcff = 1", "name = 'a\nb'", "seed = -1", "seed = 1e400", "model = []"]
    for number, text in enumerate(broken):
        yield f"toml-{number}", with_file(text)
    for number, text in enumerate(["seed", "=3", "", "seed.x=3", "data=3", "model.kind=nothing"]):
        yield f"override-{number}", lambda world, text=text: [*with_set("", "")(world)[:-1], text]


def wrong_values(annotation: Any) -> list[Any]:
    """Values that a key of this type cannot take."""
    if annotation is bool:
        return ["maybe", 7]
    if annotation is int:
        return ["many", 1.5, -1]
    if annotation is float:
        return ["much", [1.0]]
    if annotation is str:
        return [3, ["a"]]
    if get_args(annotation):  # choices and pairs
        return ["nonsense", 3]
    raise AssertionError(f"no wrong value known for {annotation}")


def run_cases() -> Iterator[Case]:
    """Run folders with a file missing, cut or from another run; used, and resumed."""
    readers: dict[str, Callable[[World, Path], Arguments]] = {
        "parse": lambda world, run: ["parse", run, world.text],
        "score": lambda world, run: ["score", "--quiet", run, world.text],
        "evaluate": lambda world, run: ["evaluate", run, world.trees],
    }
    resume: dict[str, Callable[[World, Path], Arguments]] = {"resume": lambda world, run: ["train", "--resume", run]}

    def cases(
        name: str, commands: dict[str, Callable[[World, Path], Arguments]], spoil: Callable[[Path], object]
    ) -> Iterator[Case]:
        for command, arguments in commands.items():

            def make(world: World, arguments: Any = arguments) -> Arguments:
                run = world.copy_run()
                spoil(run)
                return arguments(world, run)  # type: ignore[no-any-return]

            yield f"{command}-{name}", make

    for file in ("config.toml", "vocabulary.txt", "model.safetensors"):
        yield from cases(f"without-{file}", readers, lambda run, file=file: (run / file).unlink())
    for file in ("config.toml", "vocabulary.txt", "run.json", "metrics.jsonl"):
        yield from cases(f"without-{file}", resume, lambda run, file=file: (run / file).unlink())
    sizes = (0, 1, 7, 8, 9, 20, 100, 400, 1000, -8, -1)
    for size in sizes:
        one = {"parse": readers["parse"]}
        yield from cases(f"model-cut-{size}", one, lambda run, size=size: cut(run / "model.safetensors", size))
        yield from cases(
            f"checkpoint-cut-{size}", resume, lambda run, size=size: cut(run / "checkpoint.safetensors", size)
        )
    for name, change in {
        "huge-header": lambda content: struct.pack("<Q", 2**60) + content[8:],
        "header-not-json": lambda content: content[:8] + b"x" * 20 + content[28:],
        "text": lambda content: b"these are no weights\n" * 50,
        "trailing": lambda content: content + b"\0" * 64,
    }.items():
        yield from cases(
            f"model-{name}",
            readers,
            lambda run, change=change: rewrite(run / "model.safetensors", change),
        )
    for name, change_tensors in {
        "missing-weight": lambda tensors: tensors.pop("start"),
        "extra-weight": lambda tensors: tensors.update(extra=tensors["start"].clone()),
        "other-shape": lambda tensors: tensors.update(start=tensors["start"][:, :-1].contiguous()),
        "no-record": lambda tensors: None,
    }.items():
        yield from cases(
            f"weights-{name}",
            readers,
            lambda run, change=change_tensors: rewrite_tensors(run / "model.safetensors", change),
        )
    for name, change in {
        "empty": lambda content: b"",
        "no-specials": lambda content: b"".join(content.splitlines(keepends=True)[2:]),
        "repeated": lambda content: content + content.splitlines(keepends=True)[-1],
        "blank-line": lambda content: content + b"\nlast\n",
        "not-utf8": lambda content: content + b"caf\xe9\n",
        "one-more": lambda content: content + b"unheard-of\n",
        "one-fewer": lambda content: b"".join(content.splitlines(keepends=True)[:-1]),
    }.items():
        yield from cases(
            f"vocabulary-{name}", readers, lambda run, change=change: rewrite(run / "vocabulary.txt", change)
        )
    for name, change in {
        "not-toml": lambda content: content + b"\n]",
        "unknown-key": lambda content: content + b"\n[extra]\nkey = 1\n",
        "other-size": lambda content: content.replace(b"nonterminals = 4", b"nonterminals = 5"),
        "other-kind": lambda content: content.replace(b"sn-pcfg", b"nothing"),
        "not-utf8": lambda content: content + b"# caf\xe9\n",
    }.items():
        yield from cases(
            f"config-{name}", readers | resume, lambda run, change=change: rewrite(run / "config.toml", change)
        )
    for number, content in enumerate([b"", b"{", b"[]", b"{}", b'{"data": {}}', b'{"data": 3}', b"null", b"\xff"]):
        yield from cases(
            f"facts-{number}", resume, lambda run, content=content: (run / "run.json").write_bytes(content)
        )
    yield from cases("metrics-cut", resume, lambda run: cut(run / "metrics.jsonl", 3))
    for command, arguments in (readers | resume).items():
        yield f"{command}-nowhere", lambda world, arguments=arguments: arguments(world, world.folder / "nowhere")
        yield f"{command}-empty", lambda world, arguments=arguments: arguments(world, world.folder)
        yield f"{command}-a-file", lambda world, arguments=arguments: arguments(world, world.text)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def rewrite_tensors(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "simplepcfg-1"})


CASES = [
    (f"{group}-{name}", make)
    for group, cases in (
        ("trees", tree_cases()),
        ("text", text_cases()),
        ("config", config_cases()),
        ("run", run_cases()),
    )
    for name, make in cases
]


def test_there_are_hundreds() -> None:
    assert len(CASES) >= 300
    assert len({name for name, _ in CASES}) == len(CASES)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in CASES])
def test_one_line_and_no_traceback(
    call: Call,
    make: Callable[[World], Arguments],
    tmp_path: Path,
    tiny_run: Path,
    trees_file: Path,
    text_file: Path,
) -> None:
    """Without a traceback: a defect would be raised through `call`."""
    result = call(*make(World(tmp_path, tiny_run, trees_file, text_file)))
    assert result.code in (2, 4), result
    assert result.out == ""
    assert result.err.startswith("simplepcfg: ")
    assert result.err.count("\n") == 1
    assert len(result.err) < 500


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_anywhere(
    call: Call, tmp_path: Path, tiny_run: Path, trees_file: Path, text_file: Path, seed: int
) -> None:
    """Whatever a file holds, a command ends with an answer or with one line."""
    generator = random.Random(seed)
    world = World(tmp_path, tiny_run, trees_file, text_file)
    run = world.copy_run()
    target = generator.choice([run / "config.toml", run / "vocabulary.txt", run / "model.safetensors"])
    content = bytearray(target.read_bytes())
    for _ in range(3):
        content[generator.randrange(min(len(content), 2000))] = generator.randrange(256)
    target.write_bytes(bytes(content))
    result = call("score", "--quiet", run, text_file)
    assert result.code in (0, 2, 3, 4)
    assert result.err.count("\n") == (result.code != 0)


def test_no_setting_is_left_out() -> None:
    """The tiny settings are keys that exist, so that bad configurations differ from good ones in one place."""
    assert {setting.split("=")[0] for setting in SETTINGS} <= {key.name for key in all_keys()}
