"""The errors a user can meet: one line that names the value and the fix, and the command line's exit code."""


class SimplePCFGError(Exception):
    """Base of every error that is the user's to read, not a defect of the program."""

    exit_code = 1


class InputError(SimplePCFGError, ValueError):
    """Bad usage or bad input: a file, a line, a config key, an argument."""

    exit_code = 2


class NumericalError(SimplePCFGError):
    """Training or inference left the range of numbers and cannot go on."""

    exit_code = 3


class ResourceError(SimplePCFGError):
    """Too little memory or disk for what was asked."""

    exit_code = 4
