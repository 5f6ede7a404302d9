"""What fuzzing calls: each target takes bytes and returns what went wrong, or None.

An InputError of one line is the right answer to bad input. Everything else is a finding: another exception, several
lines, more than a few seconds, or an answer that contradicts what can be known without the code under test.
"""

import contextlib
import io
import json
import re
import shlex
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from simplepcfg.data.brackets import parse_tree
from simplepcfg.data.constraints import Constraints
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.readers import read_sentences, read_trees, sniff
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import SimplePCFGError
from simplepcfg.plans.state import ReproductionFolder
from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.config.files import load_config, save_config
from simplepcfg.runs.tensor_files import write_tensor_file

SECONDS, SECONDS_OF_WAITING = 10, 120
EXIT_CODES = {0, 2, 3, 4}
Target = Callable[[bytes], str | None]


class Hang(Exception):
    """An input took too long."""


class Wrong(Exception):
    """An answer is not what it must be."""


@contextmanager
def limited() -> Iterator[None]:
    """Raise Hang after some seconds of the processor, or after many of waiting: the machine may have other work."""

    def stop(number: int, _: object) -> None:
        waited = number == signal.SIGALRM
        raise Hang(f"more than {SECONDS_OF_WAITING if waited else SECONDS} seconds{' of waiting' if waited else ''}")

    before = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(SECONDS_OF_WAITING)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def judged(call: Callable[[bytes], None]) -> Target:
    """Turn what a call does into a finding."""

    def target(data: bytes) -> str | None:
        try:
            with limited():
                call(data)
        except SimplePCFGError as error:
            return f"several lines: {error}" if "\n" in str(error) else None
        except (Hang, Wrong) as error:
            return f"{type(error).__name__}: {error}"
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {str(error)[:100]}"
        return None

    return target


def is_conllu(lines: list[str]) -> bool:
    """Whether the first line with words has ten columns, a number or 1-2 or 1.1 first and a head seventh.

    Comments before it begin with one such as `# text = a dog`; without it they are text, of which nothing is lost.
    """
    filled = [line for line in lines if line.strip()]
    word = next((number for number, line in enumerate(filled) if not line.startswith("#")), None)
    if word is None or (word and re.match(r"#\s*([\w.:\[\]-]+\s*=|newdoc\b|newpar\b)", filled[0]) is None):
        return False
    columns = filled[word].split("\t")
    numbers = re.split(r"[-.]", columns[0])
    whole = len(numbers) <= 2 and all(number.isdecimal() for number in numbers)
    return len(columns) == 10 and whole and (columns[6] == "_" or columns[6].isdecimal())


def conllu_words(lines: list[str]) -> list[list[str]]:
    """The second column of lines that begin with a whole number; a blank line ends a sentence."""
    blocks = [list(block) for blank, block in groupby(lines, lambda line: not line.strip()) if not blank]
    rows = [[line.split("\t") for line in block if not line.startswith("#")] for block in blocks]
    words = [["_".join(row[1].split()) for row in block if row[0].isdecimal()] for block in rows]
    return [sentence for sentence in words if sentence]


class Targets:
    """All of them, with a folder to write to; `run` is a trained run for the command line."""

    def __init__(self, folder: Path, run: Path | None = None) -> None:
        self.folder, self.run = folder, run
        self._words = [f"w{number}" for number in range(9)]
        self._checkpoint: bytes | None = None

    def all(self) -> dict[str, Target]:
        """By name."""
        found = {
            "tree reader": self.trees,
            "text reader": self.text,
            "vocabulary": self.vocabulary,
            "configuration": self.configuration,
            "constraints": self.constraints,
            "JSON of results": self.results,
            "checkpoint loader": self.checkpoint,
        }
        if self.run is not None:
            found["command line"] = self.command_line
        return {name: judged(call) for name, call in found.items()}

    def _file(self, data: bytes, name: str) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def trees(self, data: bytes) -> None:
        """Every word and bracket is kept: what is read and written again reads the same."""
        for tree in read_trees(self._file(data, "fuzz.trees")):
            if any(not word or word.strip(" \t\r\n\f\v()") == "" for word in tree.words):
                raise Wrong(f"words {tree.words}")
            if tree.words and parse_tree(tree.to_brackets()) != tree:
                raise Wrong(f"{tree.to_brackets()} reads otherwise")
            tree.to_nltk() if len(tree.spans) < 100 else None

    def text(self, data: bytes) -> None:
        """The words of a file are those that splitting finds, or of CoNLL-U those of its second column."""
        path = self._file(data, "fuzz.txt")
        kind = sniff(path)
        found = list(read_sentences(path, keep_blank=True))
        lines = data.decode().removeprefix("\ufeff").split("\n")
        if data.endswith(b"\n") or not data:
            lines.pop()
        lines = [part for line in lines for part in line.rstrip("\r").split("\r")]  # a lone \r ends a line, too
        expected = conllu_words(lines) if is_conllu(lines) else [line.split() for line in lines]
        if found != expected:
            raise Wrong(f"{kind}: {found[:2]} instead of {expected[:2]}")
        for sentence in found[:20]:
            prepared = Preprocessing().apply(sentence)
            if len(prepared.kept) != len(prepared.tokens):
                raise Wrong("tokens without words")

    def vocabulary(self, data: bytes) -> None:
        """What is loaded can be saved and loaded."""
        found = Vocabulary.load(self._file(data, "vocabulary.txt"))
        found.save(self.folder / "again.txt")
        if Vocabulary.load(self.folder / "again.txt") != found:
            raise Wrong("another vocabulary after saving")

    def configuration(self, data: bytes) -> None:
        """The first line is an override, the rest a file; what is loaded can be saved and loaded."""
        override, _, text = data.partition(b"\n")
        path = self._file(text, "fuzz.toml")
        found = load_config(path, [override.decode("utf-8", "ignore")] if override else [], environment={})
        save_config(found, self.folder / "again.toml")
        if load_config(self.folder / "again.toml", environment={}) != found:
            raise Wrong("another configuration after saving")

    def constraints(self, data: bytes) -> None:
        """A table that allows a tree, or a refusal."""
        prepared = Preprocessing(punctuation="keep").apply(self._words)
        try:
            asked = json.loads(data)
        except (ValueError, RecursionError):
            return
        table = Constraints.from_mapping(asked).token_bonus(prepared)
        if table is not None and (table.shape != (10, 10) or bool(table.isnan().any())):
            raise Wrong("a table that is none")

    def results(self, data: bytes) -> None:
        """Lines of JSON that another process wrote."""
        self._file(data, "results.jsonl")
        ReproductionFolder(self.folder, ("sentence_f1",)).read_results()

    def checkpoint(self, data: bytes) -> None:
        """A checkpoint with some bytes replaced: (place, value) pairs. Only the unchanged one may be read."""
        import torch

        path = self.folder / "checkpoint.safetensors"
        if self._checkpoint is None:
            groups = {f"{group}/a": torch.arange(12.0) for group in ("weights", "best_weights", "optimizer")}
            write_tensor_file(path, groups | {"random/cpu": torch.get_rng_state()[:64]}, {"epoch": 1})
            self._checkpoint = path.read_bytes()
        content = bytearray(self._checkpoint)
        for k in range(0, len(data) - 2, 3):
            content[int.from_bytes(data[k : k + 2], "little") % len(content)] = data[k + 2]
        if len(data) % 3 == 1:
            del content[-data[-1] :]
        path.write_bytes(content)
        Checkpoint.load(path)
        if content != self._checkpoint:
            raise Wrong("damage went unnoticed")

    def command_line(self, data: bytes) -> None:
        """Words of a command line, as a shell would split them; RUN, TEXT and OUT are names of files."""
        from simplepcfg.cli.main import run

        try:
            words = shlex.split(data.decode("utf-8", "ignore"))
        except ValueError:
            return
        text = self._file(b"the dog followed the cat\n\nmy cat\n", "input.txt")
        out = tempfile.mkdtemp(dir=self.folder)
        names = {"RUN": str(self.run), "TEXT": str(text), "OUT": f"{out}/out", "DIR": out}
        words = [names.get(word, word) for word in words]
        if {"demo", "benchmark", "reproduce"} & set(words) or (
            "train" in words and "OUT" not in data.decode("utf-8", "ignore")
        ):
            return  # minutes of work, or files in the folder of whoever runs this
        stdout, stderr, stdin = io.StringIO(), io.StringIO(), sys.stdin
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))  # type: ignore[arg-type]
        try:
            with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
                code = run(words)
        finally:
            sys.stdin = stdin
        said = stderr.getvalue()
        if code not in EXIT_CODES:
            raise Wrong(f"exit code {code} of {words}")
        if code and (not said.endswith("\n") or "simplepcfg: " not in said or "Traceback" in said):
            raise Wrong(f"{words}: {said[-200:]!r}")
        if code == 0 and "--json" in words and stdout.getvalue().startswith("{"):
            json.loads(stdout.getvalue())
