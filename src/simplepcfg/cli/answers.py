"""Answers on standard output, or in a folder: a corpus in parts, a file each, written as a whole, and no part twice."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.cli.options import SentencesRequest
from simplepcfg.cli.output import note
from simplepcfg.cli.sentence_stream import Part, Prepare, check_files, read_inputs, refuses_folder, tell_files, title
from simplepcfg.errors import InputError, counted
from simplepcfg.files import TEMPORARY_SUFFIX, Record, crc32_of_file, write_json
from simplepcfg.progress import stage

if TYPE_CHECKING:
    from simplepcfg.data.inputs import Inputs
    from simplepcfg.data.preprocessing import Preprocessing

PART_SIZE = 10_000  # sentences
SETTINGS = "settings.json"
# Options that do not change answers; the grammars are recorded by their checksums and the files by their sizes.
NOT_RECORDED = ("run", "others", "files", "out", "shard", "jobs", "part_size", "device", "quiet")


def answer(request: SentencesRequest, prepare: Prepare, grammars: list[str], suffix: str, doing: str) -> object:
    """Answer all sentences: without --out on standard output, returning what `prepare` does; with it in a folder."""
    check_files(request.files)
    if not is_corpus(request):
        return prepare(request)(None)
    answer_corpus(request, prepare, grammars, suffix, doing)
    return None


def is_corpus(request: SentencesRequest) -> bool:
    """Return whether answers go into a folder; InputError for options that do not go with that, or need it."""
    refusal = refuses_folder(request)
    if request.out is not None and refusal:
        raise InputError(refusal)
    for option in ("shard", "jobs", "part_size"):
        if request.out is None and getattr(request, option) is not None:
            name = f"--{option.replace('_', '-')}"
            fix = f"leave out {name}" if refusal else "give --out DIR with it"
            raise InputError(f"{name} is for answers in a folder; {fix}")
    return request.out is not None


def answer_corpus(request: SentencesRequest, prepare: Prepare, grammars: list[str], suffix: str, doing: str) -> None:
    """Answer all sentences, or those of a shard, in files of a folder; those that are there already are kept.

    A part is finished once its file has its final name. `prepare` is called in each process; it loads the grammar.
    """
    from simplepcfg.cli.part_processes import devices_of, write_parts

    folder = request.out
    assert folder is not None
    shard, shards = _shard(request.shard)
    inputs = read_inputs(request, _preprocessing_of(grammars[0]))
    paths = _output_paths(inputs.files, folder, suffix)
    size = request.part_size or PART_SIZE
    _record(folder, request, grammars, size, {str(path.relative_to(folder)): file for file, path in paths.items()})
    kept = written = 0
    passed: list[int] = []  # bytes of the parts that were left out since the last one that was written

    def unfinished() -> Iterator[Part]:
        nonlocal kept
        for number, part in enumerate(_parts(inputs, paths, suffix, size)):
            if number % shards != shard or part.path.exists():
                kept += number % shards == shard
                passed.append(part.read)
            else:
                yield part

    parts = unfinished()
    first = next(parts, None)
    if first is not None:  # what is finished already says nothing of the time that the rest will take
        total = None if inputs.size is None else max(inputs.size - sum(passed), 1)
        passed.clear()
        tell_files(request, inputs.files)
        # Every sentence takes a byte, so that there are no more parts than this.
        devices = devices_of(request)[: len(inputs.files) + (inputs.size or 0) // size]
        told: set[str] = set()
        with stage(title(doing, inputs.files), total) as advance:
            for part, remarks in write_parts(chain([first], parts), prepare, request, devices):
                written += 1
                advance(part.read + sum(passed))
                passed.clear()
                for line in remarks:
                    kind = re.sub(r"\d+", "", line)
                    if kind not in told:  # every part would say it, with numbers of its own
                        told.add(kind)
                        note(f"{part.file}: {line}", request.quiet)
    before = f", {counted(kept, 'part')} there before" if kept else ""
    note(f"{folder}: {counted(written, 'part')} written{before}", request.quiet)


def _preprocessing_of(grammar: str) -> "Preprocessing":
    """Return how a grammar or an n-gram model reads text, without loading a grammar."""
    from simplepcfg.linguistics.controls.ngram_files import is_ngram_file, load_ngram
    from simplepcfg.pretrained import run_directory
    from simplepcfg.runs.run_folder import RunFolder

    if is_ngram_file(grammar):
        return load_ngram(grammar).preprocessing
    folder = RunFolder(run_directory(grammar))
    folder.require(folder.config, folder.vocabulary, folder.model)
    return folder.read_preprocessing()


def _shard(text: str | None) -> tuple[int, int]:
    """Return which shard of how many is meant, counted from 0."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text or "1/1")
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"--shard {text}: no part of a job array; give 1/16 for the first of sixteen, up to 16/16")
    return int(match[1]) - 1, int(match[2])


def _output_paths(files: list[str], folder: Path, suffix: str) -> dict[str, Path]:
    """Return where the answers of each file go: folders that the files lie in are folders there, too."""
    absolute = [os.path.abspath(file) for file in files]
    common = os.path.commonpath([os.path.dirname(file) for file in absolute])
    paths, taken = dict[str, Path](), set[Path]()
    for file, place in zip(files, absolute, strict=True):
        if not os.path.isfile(file) and os.path.exists(file):
            raise InputError(f"{file}: is a pipe or a device, which cannot be read again; save it as a file")
        if Path(place).is_relative_to(os.path.abspath(folder)):
            raise InputError(f"{file}: lies in --out {folder}; give another folder")
        name = os.path.relpath(place, common)
        end = suffix + ".gz" * name.endswith(".gz")
        path = folder / (name.removesuffix(".gz").removesuffix(".txt") + end)
        if path in taken:
            raise InputError(f"{file}: {path} is for another file already; rename it, or give it another --out")
        paths[file] = path
        taken.add(path)
    return paths


def _record(folder: Path, request: SentencesRequest, grammars: list[str], size: int, files: dict[str, str]) -> None:
    """Write what the answers in the folder depend on; raise InputError if it was begun with anything else."""
    from simplepcfg.version import __version__

    options = {field.name: getattr(request, field.name) for field in fields(request)}
    settings: Record = {
        "simplepcfg": __version__,
        "command": type(request).__name__.removesuffix("Request").lower(),
        "grammars": [_checksums(name) for name in grammars],
        **{name: value for name, value in options.items() if name not in NOT_RECORDED},
        "part_size": size,
        "inputs": {name: crc32_of_file(Path(file)) for name, file in files.items()},
    }
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: is a file; give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    names = {name for name in os.listdir(folder) if not name.endswith(TEMPORARY_SUFFIX)}  # another shard may begin, too
    if SETTINGS in names:
        try:
            before = json.loads((folder / SETTINGS).read_text())
            inputs = before.pop("inputs")
            settings["inputs"] = inputs | settings["inputs"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{folder / SETTINGS}: damaged; give another --out") from None
        for name, value in settings.items():
            if name != "inputs" and before.get(name) != value:
                then, now = ("unset" if one is None else one for one in (before.get(name), value))
                was = f"{name} = {then}, not {now}" if name != "grammars" else "other grammars"
                raise InputError(f"{folder}: was begun with {was}; give another --out")
        for name, checksum in inputs.items():
            if settings["inputs"][name] != checksum:
                raise InputError(f"{files[name]}: is not what {folder} was begun with; give another --out")
        if inputs == settings["inputs"]:
            return
    elif names:
        raise InputError(f"--out {folder}: holds other files; give a new folder, or one that this command has begun")
    write_json(folder / SETTINGS, settings)


def _checksums(grammar: str) -> list[int]:
    """Return the CRC-32 of each file that answers depend on."""
    from simplepcfg.pretrained import run_directory
    from simplepcfg.runs.run_folder import RunFolder

    folder = RunFolder(run_directory(grammar))
    files = (folder.path, folder.config, folder.vocabulary, folder.spelling, folder.labels, folder.model)
    return [crc32_of_file(file) for file in files if file.is_file()]


def _parts(inputs: "Inputs", paths: dict[str, Path], suffix: str, size: int) -> Iterator[Part]:
    """Yield the parts of each file: the whole of a small one; those of a large one have numbers in their names."""
    read = 0
    for file, path in paths.items():
        sentences = inputs.of_file(file)
        stem, dot, end = path.name.rpartition(suffix)
        for number in count(1):
            chosen = list(islice(sentences, size))
            if number > 1 and not chosen:
                break
            is_whole = number == 1 and len(chosen) < size
            place = path if is_whole else path.with_name(f"{stem}.{number:06}{dot}{end}")
            before, read = read, chosen[-1].read if chosen else read
            yield Part(file, (number - 1) * size, chosen, place, read - before)
            if len(chosen) < size:
                break
