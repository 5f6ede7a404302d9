"""One ResourceError, with advice, for the many ways of running out of memory or disk space."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from simplepcfg.errors import ResourceError

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
TRAINING_ADVICE = "lower training.batch_size or data.max_length, or choose a smaller model"
_NO_MEMORY = ("not enough memory", "out of memory", "can't allocate memory", "cannot allocate memory")


@contextmanager
def resource_errors(doing: str, advice: str) -> Iterator[None]:
    """Turn errors inside the context that mean too little memory or disk space into ResourceError.

    `doing` says what was going on and `advice` what to change, both for the message. Other errors are not changed.
    """
    try:
        yield
    except MemoryError as error:
        raise ResourceError(f"out of memory while {doing}; {advice}") from error
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise ResourceError(f"out of memory while {doing}; {advice}") from error
    except OSError as error:
        if error.errno in DISK_FULL:
            raise ResourceError(
                f"no space left on the disk while {doing}{_file_of(error)}; free some and resume"
            ) from error
        if error.errno == errno.ENOMEM:
            raise ResourceError(f"out of memory while {doing}; {advice}") from error
        raise


def as_resource_error(error: Exception) -> Exception:
    """Return the ResourceError that an error of training stands for, or the error itself."""
    try:
        with resource_errors("training", TRAINING_ADVICE):
            raise error
    except Exception as found:
        return found


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether a RuntimeError of torch means that an allocation failed, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return any(phrase in str(error).lower() for phrase in _NO_MEMORY)


def _file_of(error: OSError) -> str:
    return f" ({error.filename})" if error.filename else ""
