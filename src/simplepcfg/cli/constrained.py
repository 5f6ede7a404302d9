"""Sentences side by side with the lines of a file of constraints."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from simplepcfg.cli.job import TOO_LONG, Chunk
from simplepcfg.errors import InputError, counted

if TYPE_CHECKING:
    from simplepcfg.data.constraints import Constraints


def with_constraints(
    chunks: Iterable[Chunk], path: str | None, sentences: Sequence[str], skip: int
) -> Iterator[tuple[Chunk, "list[Constraints | None] | None"]]:
    """Yield each chunk of sentences with its constraints, one line a sentence; None without a file.

    The first `skip` lines are left out, as the first sentences were. Nothing is asked of a sentence that is too long.

    The last chunk waits until both files have been seen to end together, so that nothing is printed for files that do
    not belong to each other, unless they are longer than a chunk.
    """
    if path is None:
        yield from ((chunk, None) for chunk in chunks)
        return
    if path == "-" and "-" in sentences:
        raise InputError("--constraints - and the sentences are both standard input; give one of them as a file")
    from simplepcfg.data.constraints import read_constraints

    lines = read_constraints(path)
    waiting: tuple[Chunk, list[Constraints | None]] | None = None
    done = sum(1 for _ in islice(lines, skip))
    remaining = iter(chunks)
    while True:
        chunk = next(remaining, None)
        if chunk is None:
            break
        if waiting is not None:
            yield waiting
        asked = list(islice(lines, len(chunk)))
        done += len(asked)
        if len(asked) < len(chunk):
            lacking = f"{counted(done, 'line')} for more sentences than that"
            raise InputError(f"{path}: {lacking}; give a line, if empty, for each")
        waiting = chunk, [None if words is TOO_LONG else one for words, one in zip(chunk, asked, strict=True)]
    if next(lines, None) is not None:
        raise InputError(f"{path}: more lines than the {counted(done, 'sentence')}; give one line a sentence")
    if waiting is not None:
        yield waiting
