"""The files of a treebank, as its publisher ships it, by split."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simplepcfg.data.inputs import files_below
from simplepcfg.data.readers import UTF8, open_text, sniff
from simplepcfg.errors import InputError

TRAIN, VALID, TEST = SPLITS = ("train", "valid", "test")
Ranges = dict[str, str]

PTB_SECTIONS: Ranges = {TRAIN: "2-21", VALID: "22", TEST: "23"}
CTB_FILES: Ranges = {TRAIN: "1-270,440-1151", VALID: "301-325", TEST: "271-300"}
# Trees of PTB-3's files, by which an incomplete copy is noticed.
PTB_TREES = {TRAIN: 39_832, VALID: 1_700, TEST: 2_416}

_PTB_FILE = re.compile(r"wsj_(\d\d)\d\d\.(mrg|prd)", re.IGNORECASE)
_CTB_FILE = re.compile(r"chtb_(\d+)\.(?:fid|nw|mrg)", re.IGNORECASE)
_SPLIT_NAME = re.compile(r"(?<![a-z])(train(?:ing)?|dev(?:el)?|val(?:id(?:ation)?)?|test)(?![a-z])", re.IGNORECASE)
TREE_ENDINGS = frozenset(
    ["trees", "tree", "mrg", "prd", "ptb", "penn", "parse", "brackets", "bracket", "gold", "fid", "nw", "txt", "clean"]
)
CHINESE = "gb18030"  # which contains GB2312 and GBK

_TAG_LINE = re.compile(r"\s*<.*>\s*")
_HEADER = re.compile(r"\s*<(/?)HEADER\b", re.IGNORECASE)
# A sentence may share its line with the tags around it.
_SENTENCE = re.compile(r"\s*<(?:S|su|seg)\b[^>]*>|</(?:S|su|seg)>\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """The files of each split, with None for files that name no split, and remarks about others."""

    files: list[tuple[str | None, Path]]
    notes: list[str] = field(default_factory=list)


def find_ptb(sources: Sequence[Path], ranges: Ranges = PTB_SECTIONS) -> Source:
    """Find `wsj_SSNN.mrg` (or `.prd`) below the folders, split by section SS; InputError if there is none."""
    paths: dict[str, Path] = {}
    for path in _walk(sources):
        if _PTB_FILE.fullmatch(path.name):
            other = paths.get(path.stem)
            if other is not None and other.suffix == path.suffix:
                raise InputError(f"{path}: {other} has the same name; give the folder of one copy, such as mrg/wsj")
            if other is None or path.suffix == ".mrg":
                paths[path.stem] = path
    numbers = {path: int(path.name[4:6]) for path in paths.values()}
    return _by_number(numbers, ranges, sources, "wsj_0200.mrg", "section")


def find_ctb(sources: Sequence[Path], ranges: Ranges = CTB_FILES) -> Source:
    """Find `chtb_NNN.fid` below the folders, split by NNN; InputError if there is none."""
    paths: dict[int, Path] = {}
    for path in _walk(sources):
        if match := _CTB_FILE.fullmatch(path.name):
            number = int(match[1])
            if number in paths:
                raise InputError(f"{path}: {paths[number]} has the same number; give the folder of one copy")
            paths[number] = path
    numbers = {path: number for number, path in paths.items()}
    return _by_number(numbers, ranges, sources, "chtb_001.fid", "file")


def find_trees(sources: Sequence[Path]) -> Source:
    """Find files of bracketed trees, given or below a folder; `train`, `dev` or `test` in a name is its split."""
    files: list[tuple[str | None, Path]] = []
    notes: list[str] = []
    for source in sources:
        if not source.is_dir():
            files.append((split_of(source), source))
            continue
        for path in _walk([source]):
            name = path.name.lower().removesuffix(".gz")
            if name.rpartition(".")[2] not in TREE_ENDINGS:
                continue
            if _holds_trees(path):
                files.append((split_of(path, source), path))
            else:
                notes.append(f"{path}: left out, it does not hold trees")
    if not files:
        where = " ".join(map(str, sources))
        raise InputError(
            f"{where}: no file of trees here or in folders below; looked for .{' .'.join(sorted(TREE_ENDINGS))}"
        )
    if repeated := next(
        (path for path, count in Counter(path.resolve() for _, path in files).items() if count > 1), None
    ):
        raise InputError(f"{repeated}: is given more than once; give each file once")
    named = [split for split, _ in files if split is not None]
    if named and len(named) < len(files):
        path = next(path for split, path in files if split is None)
        raise InputError(f"{path}: its name says no split (train, dev, test), as others do; rename it or leave it out")
    if named and TRAIN not in named:
        only = " and ".join(dict.fromkeys(named))
        raise InputError(
            f"{files[0][1]}: by their names, all files are {only}; a vocabulary is made from training text: give files "
            "named train too, or rename these"
        )
    return Source(sorted(files, key=lambda item: SPLITS.index(item[0]) if item[0] else 0), notes)


def find_spmrl(sources: Sequence[Path]) -> Source:
    """Find gold trees such as `train.French.gold.ptb`, train5k only if there is no other train; InputError if none."""
    source = find_trees(sources)
    gold = [item for item in source.files if ".gold." in item[1].name.lower()] or source.files
    whole = [item for item in gold if not item[1].name.lower().startswith("train5k")]
    chosen = whole if any(split == TRAIN for split, _ in whole) else gold
    if any(split is None for split, _ in chosen):
        raise InputError(f"{chosen[0][1]}: its name says no split; SPMRL's are such as train.French.gold.ptb")
    left_out = len(source.files) - len(chosen)
    notes = [f"{left_out} files left out: not gold, or train5k beside train"] if left_out else []
    return Source(chosen, source.notes + notes)


def language_of(files: Iterable[tuple[str | None, Path]]) -> str | None:
    """Return the one language, French or German, in the files' names, or None; InputError if there are two."""
    languages = {name for _, path in files for name in ("french", "german") if name in path.name.lower()}
    if len(languages) > 1:
        raise InputError("the files are French and German; prepare one language at a time")
    return next(iter(languages), None)


def split_of(path: Path, below: Path | None = None) -> str | None:
    """Return the split in a file's name, or in that of a folder between `below` and it; None if there is none."""
    parts = path.relative_to(below).parts if below is not None else (path.name,)
    for part in reversed(parts):
        # The first name counts: train5k and dev.test.trees are what they begin with.
        if match := _SPLIT_NAME.search(part):
            name = match[1].lower()
            return TEST if name == "test" else TRAIN if name.startswith("train") else VALID
    return None


def parse_ranges(text: str) -> Callable[[int], bool]:
    """Return a function that tells whether a number is in ranges such as "1-270,440-1151".

    Raises InputError for another text.
    """
    bounds = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:[-–]\s*(\d+)\s*)?", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise InputError(
                f"{part.strip()!r} in {text!r} is no range of numbers; write such as 2-21 or 1-270,440-1151"
            )
        bounds.append((int(match[1]), int(match[2] or match[1])))
    return lambda number: any(first <= number <= last for first, last in bounds)


def _by_number(numbers: Mapping[Path, int], ranges: Ranges, sources: Sequence[Path], like: str, unit: str) -> Source:
    """Return the files by split, which the ranges tell by their numbers."""
    tests = {split: parse_ranges(text) for split, text in ranges.items()}
    files: list[tuple[str | None, Path]] = []
    total, unused = len(numbers), 0
    for path, number in sorted(numbers.items(), key=lambda item: (item[1], item[0].name)):
        splits = [split for split in tests if tests[split](number)]
        if len(splits) > 1:
            raise InputError(f"{unit} {number} is in {' and '.join(splits)}; let each be in one split")
        unused += not splits
        files += [(split, path) for split in splits]
    where = " ".join(map(str, sources))
    if not total:
        raise InputError(f"{where}: no file named such as {like} here or in folders below; check the path")
    for split, text in ranges.items():
        if not any(split == other for other, _ in files):
            raise InputError(f"{where}: {total} files, none of {unit}s {text} ({split}); give the whole treebank")
    notes = [f"{unused} of {total} files are in no split"] if unused else []
    return Source(sorted(files, key=lambda item: SPLITS.index(str(item[0]))), notes)


def _holds_trees(path: Path) -> bool:
    """Tell whether a file holds trees; one in another encoding may."""
    try:
        return sniff(path) == "trees"
    except InputError:
        return True


def _walk(sources: Sequence[Path]) -> Iterator[Path]:
    """Yield the files given, and the files below folders in the order of their names, without hidden ones."""
    for source in sources:
        if source.is_dir():
            yield from sorted(files_below(source), key=lambda path: (path.parent.parts, path.name))
            continue
        if not source.exists():
            raise InputError(f"{source}: no such file or folder; check the path")
        yield source


def without_sgml(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a `.fid` file with headers and lines of SGML tags made blank, so that line numbers stay."""
    in_header = False
    for line in lines:
        header = _HEADER.match(line)
        if header is not None:
            in_header = not header[1] and "</" not in line
        text = "" if header is not None or in_header else _SENTENCE.sub("", line)
        yield "" if _TAG_LINE.fullmatch(text) else text


def chinese_encoding(path: Path) -> str:
    """Return the encoding of a file of a Chinese treebank; these files are small and can be read once more."""
    try:
        for _ in open_text(path):
            pass
    except InputError as error:
        if isinstance(error.__context__, UnicodeDecodeError):
            return CHINESE
    return UTF8
