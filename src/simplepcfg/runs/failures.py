"""One ResourceError, with advice, for the many ways of running out of memory or disk space."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from simplepcfg.errors import ResourceError, is_out_of_memory

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
TRAINING_ADVICE = "begin a run with a lower training.batch_size or data.max_length, or a smaller model"


@contextmanager
def resource_errors(doing: str, advice: str) -> Iterator[None]:
    """Turn errors inside the context that mean too little memory or disk space into ResourceError.

    `doing` says what was going on and `advice` what to change, both for the message. Other errors are not changed.
    """
    try:
        yield
    except (MemoryError, RuntimeError, OSError) as error:
        if is_out_of_memory(error):
            raise ResourceError(f"out of memory while {doing}; {advice}") from error
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            place = f" ({error.filename})" if error.filename else ""
            raise ResourceError(f"no space left on the disk while {doing}{place}; free some and resume") from error
        raise


def as_resource_error(error: Exception) -> Exception:
    """Return the ResourceError that an error of training stands for, or the error itself."""
    try:
        with resource_errors("training", TRAINING_ADVICE):
            raise error
    except Exception as named:
        return named
