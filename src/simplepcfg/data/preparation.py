"""`prepare`: a treebank as published becomes the files that training and evaluation read."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from simplepcfg.data.brackets import EMPTY_TREES, parse_trees
from simplepcfg.data.conventions import FOREIGN, KEPT_WORDS, Conventions, Losses, prepare_tree
from simplepcfg.data.formats import refuse_other_formats
from simplepcfg.data.prepared_folder import new_folder, write_toml
from simplepcfg.data.readers import UTF8, open_text
from simplepcfg.data.treebank_files import SPLITS, TRAIN, Source, chinese_encoding, without_sgml
from simplepcfg.data.vocabulary import Vocabulary, held_out_words_remark
from simplepcfg.errors import InputError, counted, naming_file
from simplepcfg.progress import stage

EMPTIED, TREELESS = "sentences with no word left", "files without trees"
_LOOKED_AT = 1000  # words, before tags are judged
MAX_LENGTH = 40  # of training sentences; train leaves longer ones out, after the vocabulary is counted
# Settings of `train` that go with prepared text: nothing is done to it again.
AS_PREPARED: dict[str, object] = {"lowercase": False, "numbers": "keep", "punctuation": "keep"}


@dataclass(slots=True)
class SplitCount:
    """Numbers of files, sentences and words of one split."""

    files: int = 0
    read: int = 0  # trees, those without any word included
    sentences: int = 0
    words: int = 0
    one_word_sentences: int = 0


@dataclass
class Preparation:
    """Summary of a preparation: what was written, and what was left out."""

    folder: Path
    splits: dict[str, SplitCount]
    losses: Losses
    vocabulary: int  # words, without <pad> and <unk>
    types: int  # different words of the training text
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A preparation to be done: the files of each split, and how they are read."""

    kind: str  # ptb, ctb, spmrl or brackets
    sources: Sequence[Path]
    source: Source
    conventions: Conventions
    shares: tuple[float, ...] | None = None  # of train, valid, test, where files name no split
    seed: int = 0
    ranges: Mapping[str, str] = field(default_factory=dict)  # sections or files of each split, where numbers tell


def prepare(job: Job, out: Path) -> Preparation:
    """Write `out`/{train,valid,test}.{txt,trees}, vocabulary.txt and prepared.toml; return a summary.

    Memory holds the counts of training words and one sentence. `out` must not exist, or be empty; it is filled in
    one step at the end.
    """
    if job.shares is not None and any(split is not None for split, _ in job.source.files):
        raise InputError("shares divide files whose names say no split, but these do; leave it out")
    with new_folder(out) as unfinished:
        counts: Counter[str] = Counter()
        splits, losses = _write_splits(job, unfinished, counts)
        conventions = job.conventions
        size = conventions.vocabulary_size or None
        vocabulary = Vocabulary.from_counts(counts, size, conventions.min_count)
        remark = None if conventions.min_count else held_out_words_remark(counts, vocabulary, size)
        vocabulary.save(unfinished / "vocabulary.txt")
        done = Preparation(
            folder=out,
            splits=splits,
            losses=losses,
            vocabulary=len(vocabulary) - 2,
            types=len(counts),
            notes=[*job.source.notes, *([] if remark is None else [remark])],
        )
        write_toml(unfinished, _description(job, done))
    return done


def _write_splits(job: Job, folder: Path, counts: Counter[str]) -> tuple[dict[str, SplitCount], Losses]:
    losses = Losses()
    splits: dict[str, SplitCount] = {}
    generator = random.Random(job.seed)
    files = len(job.source.files)
    with ExitStack() as stack:
        advance = stack.enter_context(stage(f"preparing {counted(files, 'file')}", files if files > 1 else None))
        outputs: dict[str, list[IO[str]]] = {}
        for named, path in job.source.files:
            touched = set()
            for words, brackets in _sentences(job, path, losses):
                split = named or (generator.choices(SPLITS, job.shares)[0] if job.shares else TRAIN)
                if split not in splits:
                    splits[split] = SplitCount()
                    paths = [folder / f"{split}.{ending}" for ending in ("txt", "trees")]
                    outputs[split] = [stack.enter_context(_new_file(path)) for path in paths]
                touched.add(split)
                count = splits[split]
                count.read += 1
                if not words:
                    losses.reasons[EMPTIED] += 1
                    continue
                count.sentences += 1
                count.words += len(words)
                count.one_word_sentences += len(words) == 1
                for stream, line in zip(outputs[split], (" ".join(words), brackets), strict=True):
                    with naming_file(stream.name):
                        stream.write(line + "\n")
                if split == TRAIN:
                    counts.update(words)
            for split in touched:
                splits[split].files += 1
            if losses.reasons[KEPT_WORDS] + losses.reasons[FOREIGN] >= _LOOKED_AT:
                _refuse_foreign_tags(job, path, losses)
            advance(1)
    _refuse_foreign_tags(job, job.source.files[-1][1], losses)
    for split in dict.fromkeys([TRAIN, *(named for named, _ in job.source.files if named)]):
        if split not in splits or not splits[split].sentences:
            where = " ".join(map(str, job.sources))
            raise InputError(f"{where}: no sentence is left for {split}; check the files and the tags that stay")
    return {split: splits[split] for split in SPLITS if split in splits}, losses


def _sentences(job: Job, path: Path, losses: Losses) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the words of each sentence and the brackets of its tree, both empty where no word is left."""
    lines = open_text(path, encoding=chinese_encoding(path) if job.kind == "ctb" else UTF8)
    # Files of the Chinese treebank have tags around their trees.
    lines = without_sgml(lines) if job.kind == "ctb" else refuse_other_formats(lines, str(path))
    without_words = losses.reasons[EMPTY_TREES]
    has_trees = False
    for tree in parse_trees(lines, str(path), losses.reasons):
        has_trees = True
        prepared = prepare_tree(tree, job.conventions, losses)
        yield prepared.words, prepared.to_brackets() if prepared.words else ""
    if has_trees or losses.reasons[EMPTY_TREES] > without_words:
        return
    if job.ranges:  # one of hundreds of files
        losses.reasons[TREELESS] += 1
    else:
        raise InputError(f"{path}: no trees; expected bracketed trees such as (S (NP (DT a) (NN dog)))")


def _refuse_foreign_tags(job: Job, path: Path, losses: Losses) -> None:
    """Refuse a list of tags that takes away half of the words: it belongs to another treebank."""
    if job.conventions.punctuation != "tags":
        return
    gone, kept = losses.reasons[FOREIGN], losses.reasons[KEPT_WORDS]
    if gone > kept:
        most = " ".join(tag for tag, _ in losses.tags.most_common(6))
        raise InputError(
            f"{path}: {gone:,} of {gone + kept:,} words go by their tags (such as {most}); give the treebank's own "
            "tags to drop or to keep, or tell punctuation by its characters"
        )


def _new_file(path: Path) -> IO[str]:
    return open(path, "w", encoding="utf-8", newline="\n")


def _description(job: Job, done: Preparation) -> dict[str, object]:
    """Return the content of prepared.toml."""
    reasons = {
        name: count for name, count in done.losses.reasons.items() if count and name not in (KEPT_WORDS, FOREIGN)
    }
    return {
        "treebank": job.kind,
        "sources": [str(path) for path in job.sources],
        **({"shares": list(job.shares), "seed": job.seed} if job.shares else {}),
        **({"numbers": dict(job.ranges)} if job.ranges else {}),
        "conventions": asdict(job.conventions),
        "splits": {split: asdict(count) for split, count in done.splits.items()},
        "vocabulary": {"words": done.vocabulary, "training_types": done.types},
        "dropped": {"reasons": reasons, "by_tag": dict(done.losses.tags.most_common())},
        "data": {
            **AS_PREPARED,
            "eos": False,
            "max_length": MAX_LENGTH,
            "vocabulary_size": job.conventions.vocabulary_size,
            "min_count": job.conventions.min_count,
        },
    }
