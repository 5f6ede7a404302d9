"""Sentences side by side with the lines of a file of constraints."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from simplepcfg.cli.options import Chunk
from simplepcfg.errors import InputError, ResourceError, counted

if TYPE_CHECKING:
    from simplepcfg.data.constraints import Constraints


def with_constraints(
    chunks: Iterable[Chunk], path: str | None, sentences: str
) -> Iterator[tuple[Chunk, "list[Constraints] | None"]]:
    """Yield each chunk of sentences with its constraints, one line a sentence; None without a file.

    The last chunk waits until both files have been seen to end together, so that nothing is printed for files that do
    not belong to each other, unless they are longer than a chunk.
    """
    if path is None:
        yield from ((chunk, None) for chunk in chunks)
        return
    if path == sentences == "-":
        raise InputError("--constraints - and the sentences are both standard input; give one of them as a file")
    from simplepcfg.data.constraints import read_constraints

    lines = read_constraints(path)
    waiting: tuple[Chunk, list[Constraints]] | None = None
    done = 0
    remaining = iter(chunks)
    while True:
        try:
            chunk = next(remaining, None)
        except ResourceError:  # a sentence that is too long: those before it are answered
            if waiting is not None:
                yield waiting
            raise
        if chunk is None:
            break
        if waiting is not None:
            yield waiting
        asked = list(islice(lines, len(chunk)))
        done += len(asked)
        if len(asked) < len(chunk):
            lacking = f"{counted(done, 'line')} for more sentences than that"
            raise InputError(f"{path}: {lacking}; give a line, if empty, for each")
        waiting = chunk, asked
    if next(lines, None) is not None:
        raise InputError(f"{path}: more lines than the {counted(done, 'sentence')}; give one line a sentence")
    if waiting is not None:
        yield waiting
