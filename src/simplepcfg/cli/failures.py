"""Every failure a user can meet becomes one line and an exit code; only defects show a traceback."""

import errno
import os
import sys
from difflib import get_close_matches

import typer

from simplepcfg.cli.output import STANDARD_OUTPUT
from simplepcfg.errors import InputError, ResourceError, SimplePCFGError, is_out_of_memory

INTERRUPTED, BROKEN_PIPE = 130, 141  # 128 and the number of the signal

# Newer typers carry their own copy of click: its classes are reached through the one name that typer exports.
UsageError: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "UsageError" and issubclass(base, Exception)
)

NOT_A_NUMBER = {"int_parsing": "whole number", "int_from_float": "whole number", "float_parsing": "number"}
BOUNDS = {"ge": "or more", "le": "or less"}
OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EFBIG}


def exit_code_of(error: BaseException) -> int | None:
    """Print the line that explains `error` and return its exit code; None means a defect, to be raised."""
    match error:
        case typer.Exit():
            return error.exit_code
        case KeyboardInterrupt() | typer.Abort():
            complain(str(error) or "interrupted")
            return INTERRUPTED
        case BrokenPipeError():
            silence_stdout()
            return BROKEN_PIPE
        case SimplePCFGError():
            complain(str(error))
            return error.exit_code
        case OSError():
            return _explain_os_error(error)
        case _ if is_out_of_memory(error):
            reason = f" ({error})" if str(error) else ""
            complain(f"out of memory: use shorter sentences, a smaller model or a machine with more{reason}")
            return ResourceError.exit_code
    if isinstance(error, UsageError):
        complain(_explain_usage(error))
        return InputError.exit_code
    return None


def complain(message: str) -> None:
    """Print a message as one line on standard error; of several processes that fail alike, only the first prints it."""
    if is_follower():
        from simplepcfg.training.step.distributed import wait_for_leader

        wait_for_leader()
        return
    print("simplepcfg: " + " ".join(message.split()), file=sys.stderr)


def is_follower() -> bool:
    """Return whether torchrun started this process and another one prints for it."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ.get("RANK", "0") != "0"


def silence_stdout() -> None:
    """Redirect standard output to nowhere after a closed pipe, so that the interpreter's last flush does not fail."""
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)
    except (OSError, ValueError):  # a captured standard output has no descriptor
        pass


def _explain_os_error(error: OSError) -> int:
    place = f"{error.filename}: " if error.filename is not None else ""
    if error.filename == STANDARD_OUTPUT:  # what is left in its buffer cannot be written at exit either
        silence_stdout()
    complain(f"{place}{error.strerror or error}")
    return (ResourceError if error.errno in OUT_OF_SPACE else InputError).exit_code


def _explain_usage(error: Exception) -> str:
    message = error.format_message().replace("Value error, ", "")  # type: ignore[attr-defined]
    for problem in getattr(error.__cause__, "errors", list)():  # pydantic's, which knows the value
        if problem["type"] in NOT_A_NUMBER:
            message = message.replace(problem["msg"], f"{problem['input']!r} is no {NOT_A_NUMBER[problem['type']]}")
        for key, side in BOUNDS.items():
            if key in problem.get("ctx", {}):
                message = message.replace(problem["msg"], f"{problem['input']}; give {problem['ctx'][key]} {side}")
    if (option := getattr(error, "option_name", None)) is not None and hasattr(error, "possibilities"):
        close = get_close_matches(option, error.possibilities or (), 1, cutoff=0.7)
        message = f"no such option: {option}" + "".join(f" (did you mean {name}?)" for name in close)
    message = message[:1].lower() + message[1:].rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "simplepcfg"
    return f"{message}; see {command} --help"
