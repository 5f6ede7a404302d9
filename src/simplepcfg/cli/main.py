"""The command line: one small file a command, each of which parses its arguments and calls the library."""

import io
import os
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any

import typer

from simplepcfg.cli.failures import exit_code_of
from simplepcfg.cli.output import STANDARD_OUTPUT, write_lines
from simplepcfg.cli.progress import shows_progress
from simplepcfg.errors import InputError, TextWarning, naming_file
from simplepcfg.version import __version__

# In the order of the help; WITH_PROGRESS are those that do not say themselves how far they are.
COMMANDS = (
    *("demo", "train", "distil", "evaluate", "parse", "score", "complete", "sample", "show"),
    *("models", "package", "doctor", "serve", "report", "reproduce"),
)
WITH_PROGRESS = ("evaluate", "parse", "score", "complete", "sample", "show", "report")
GROUPS = ("prepare", "test", "baseline")
EVERY = (*COMMANDS, *GROUPS)


def _print_version(wanted: bool) -> None:
    if wanted:
        write_lines([f"simplepcfg {__version__}"])
        raise typer.Exit


def top(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_print_version, is_eager=True),
) -> None:
    """Learn large probabilistic context-free grammars from raw text, and parse and score with them.

    \b
    Start here:
      echo "The old dog slept by the fire." | simplepcfg parse english
      simplepcfg demo
    """


def app_of(names: Sequence[str]) -> typer.Typer:
    """Return the command line with these commands and groups of commands alone."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help keeps the examples' lines as they are
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(top)
    for name in names:
        module = import_module(f"simplepcfg.cli.{name}")
        if name in GROUPS:
            app.add_typer(module.app, name=name, short_help=module.SUMMARY)
        else:
            command = shows_progress(module.command) if name in WITH_PROGRESS else module.command
            app.command(name, short_help=module.SUMMARY)(command)
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 2 bad input, 3 numerical, 4 resources, 128 + signal."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or (len(given) == 1 and given[0] in GROUPS):
        given.append("--help")
    command = _command(given[0] if given[0] in EVERY else None)
    _prepare_streams()
    try:
        if given[:1] == ["benchmark"] or given[:2] == ["reproduce", "speed"]:
            raise InputError(f"{' '.join(given[:2])}: in a checkout, run python benchmarks/inside.py --paper DIR")
        _refuse_empty_values(given)
        with warnings.catch_warnings(), command.make_context("simplepcfg", given) as context:
            warnings.showwarning = _show_in_one_line
            warnings.simplefilter("ignore", TextWarning)  # commands print remarks on text themselves
            command.invoke(context)
        with naming_file(STANDARD_OUTPUT):
            sys.stdout.flush()
    except BaseException as error:
        code = exit_code_of(error)
        if code is None:
            raise
        return code
    return 0


@cache
def _command(name: str | None) -> Any:
    """Build the command line with one subcommand, or with all, which takes longer than most of what is called."""
    # The type is click's, of which newer versions of typer carry a copy.
    return typer.main.get_command(app_of(EVERY if name is None else (name,)))


def _refuse_empty_values(given: Sequence[str]) -> None:
    """Raise InputError for an option with an empty value: a path, as of --out "$UNSET", would be the current folder."""
    for word, following in pairwise([*given, "the end"]):
        if word == "--":
            return
        name, separator, value = word.partition("=")
        if name.startswith("--") and "" in (following, value if separator else name):
            raise InputError(f"{name} is empty; give it a value, or leave it out")


def _prepare_streams() -> None:
    """Open standard streams that a shell has closed (`>&-`), and write UTF-8 whatever the locale says, as in files.

    From a closed one nothing is read, results that are written to it are an error, and remarks go nowhere.
    """
    for name, mode, access in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, access), mode, encoding="utf-8")  # noqa: SIM115 (open until the end)
            setattr(sys, name, stream)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def _show_in_one_line(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning as any other remark, without the place in the code, which tells a user nothing."""
    print(f"simplepcfg: {' '.join(str(message).split())}", file=sys.stderr)
