"""The errors a user can meet: one line that names the value and the fix, and the command line's exit code."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral


class SimplePCFGError(Exception):
    """Base of every error that is the user's to read, not a defect of the program."""

    exit_code = 1

    def __init__(self, message: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:  # another than that of the class
            self.exit_code = exit_code


class InputError(SimplePCFGError, ValueError):
    """Bad usage or bad input: a file, a line, a config key, an argument."""

    exit_code = 2


class NumericalError(SimplePCFGError):
    """Training or inference left the range of numbers and cannot go on."""

    exit_code = 3


class ResourceError(SimplePCFGError):
    """Too little memory or disk for what was asked."""

    exit_code = 4


class TextWarning(UserWarning):
    """Text that a run can hardly have been meant for: unknown words, untokenised words, several sentences in one."""


_NO_MEMORY = ("not enough memory", "out of memory", "allocate memory", "alloc_failed")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory could not be allocated, on a CPU or a GPU; torch need not be loaded."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, RuntimeError):  # torch's OutOfMemoryError is one, and some of its backends raise plain ones
        return any(phrase in str(error).lower() for phrase in _NO_MEMORY)
    return isinstance(error, MemoryError | ResourceError)


@contextmanager
def naming_file(name: object) -> Iterator[None]:
    """Give an OSError that names no file, as that of a full disk during a write, the name of this one."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None or isinstance(error, BrokenPipeError):
            raise
        raise OSError(error.errno, error.strerror, str(name)) from None


def require_whole(name: str, value: object, least: int) -> None:
    """Raise InputError unless a value is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} = {value!r}; give a whole number, {least} or more")


def shortened(text: str, most: int = 40) -> str:
    """Return a text, its end replaced by … if it is very long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def counted(number: int, noun: str) -> str:
    """Return a number and what it counts, for messages: `1 word`, `1,200 words`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
