"""The command line: one small file a command, each of which parses its arguments and calls the library."""

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from typing import Annotated, Any

import typer

from simplepcfg.cli import (
    baseline,
    benchmark,
    complete,
    demo,
    distil,
    doctor,
    evaluate,
    models,
    parse,
    prepare,
    report,
    reproduce,
    sample,
    score,
    serve,
    show,
    test,
    train,
)
from simplepcfg.cli.failures import exit_code_of
from simplepcfg.cli.output import STANDARD_OUTPUT, write_lines
from simplepcfg.errors import InputError, naming_file
from simplepcfg.version import __version__

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help keeps the examples' lines as they are
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for module in (
    demo,
    train,
    distil,
    evaluate,
    parse,
    score,
    complete,
    sample,
    show,
    models,
    doctor,
    serve,
    report,
    reproduce,
):
    app.command(module.NAME, short_help=module.SUMMARY)(module.command)
app.add_typer(prepare.app, name=prepare.NAME, short_help=prepare.SUMMARY)
app.add_typer(test.app, name=test.NAME, short_help=test.SUMMARY)
app.add_typer(baseline.app, name=baseline.NAME, short_help=baseline.SUMMARY)
app.add_typer(benchmark.app, name=benchmark.NAME, short_help=benchmark.SUMMARY)


def _print_version(wanted: bool) -> None:
    if wanted:
        write_lines([f"simplepcfg {__version__}"])
        raise typer.Exit


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Learn large probabilistic context-free grammars from raw text, and parse and score with them.

    \b
    Start here:
      echo "The old dog slept by the fire." | simplepcfg parse english
      simplepcfg demo
    """
    if context.invoked_subcommand is None:
        write_lines([context.get_help()])


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 2 bad input, 3 numerical, 4 resources, 128 + signal."""
    command = _whole_command()
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    _write_utf8()
    try:
        _refuse_empty_values(command, given)
        _refuse_repeated(command, given)
        with warnings.catch_warnings(), command.make_context("simplepcfg", given) as context:
            warnings.showwarning = _show_in_one_line
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
def _whole_command() -> Any:
    """Build the command with all its subcommands once: it takes longer than most of what tests and scripts call."""
    return typer.main.get_command(app)


def _refuse_empty_values(command: Any, given: Sequence[str]) -> None:
    """An option with nothing in it, such as --out "$UNSET": an empty path would be the current folder."""
    options = set(_options_with_values(command))
    for word, after in zip_longest(given, given[1:]):
        name, separator, value = word.partition("=")
        if word == "--":
            return
        if name in options and (not value if separator else after == ""):
            raise InputError(f"{name} is empty; give it a value, or leave it out")


def _refuse_repeated(command: Any, given: Sequence[str]) -> None:
    """An option with a value that is given twice, where one counts: the first would be left out without a word."""
    words = iter(given)
    names: dict[str, Any] = {}
    seen: dict[int, str] = {}
    for word in words:
        if word == "--":
            return
        if word in getattr(command, "commands", {}):
            command = command.commands[word]
            names = {name: option for option in command.params for name in option.opts}
            continue
        name, separator, value = word.partition("=")
        option = names.get(name)
        if option is None or option.param_type_name != "option" or option.is_flag:
            continue
        value = value if separator else next(words, "")
        if not option.multiple and seen.setdefault(id(option), value) != value:
            first = seen[id(option)]
            raise InputError(f"{name} is given twice, as {first} and {value}; give it once")


def _options_with_values(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.is_flag:
            yield from (name for name in parameter.opts if name.startswith("--"))
    for inner in getattr(command, "commands", {}).values():
        yield from _options_with_values(inner)


def _open_closed_streams() -> None:
    """Where a shell has closed a standard stream (`>&-`), what is read is empty and what is written goes nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open until the end)


def _show_in_one_line(message: Warning | str, *_: object, **__: object) -> None:
    """As any other remark: the place in the code that Python would add tells a user nothing."""
    print(f"simplepcfg: {' '.join(str(message).split())}", file=sys.stderr)


def _write_utf8() -> None:
    """Files are read as UTF-8 whatever the locale says, so standard output is written so too."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
