"""Options of a command, declared once as the fields of a dataclass: the request that its function gets."""

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter, Signature
from typing import TypeVar, get_type_hints

import typer

from simplepcfg.cli.output import refuse_unwritable, write_lines

Request = TypeVar("Request")


def takes(request: type[Request]) -> Callable[[Callable[[Request], None]], Callable[..., None]]:
    """Make a function of one request a command whose options are the fields of this dataclass."""
    hints = get_type_hints(request, include_extras=True)
    parameters = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(request)  # type: ignore[arg-type]
    ]

    def decorate(function: Callable[[Request], None]) -> Callable[..., None]:
        @wraps(function)
        def command(**options: object) -> None:
            function(request(**options))

        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = hints
        return command

    return decorate


def opt(
    names: str, metavar: str, help: str, *, min: int | None = None, max: int | None = None, show_default: bool = True
) -> object:
    """Return an option with a value; `names` are separated by spaces, such as `--k -k`."""
    return typer.Option(*names.split(), metavar=metavar, help=help, min=min, max=max, show_default=show_default)


def written(names: str, help: str) -> object:
    """Return an option that names a file to write; one that cannot be written is refused before any work is done."""
    return typer.Option(*names.split(), metavar="FILE", help=help, callback=_refuse_unwritable)


def _refuse_unwritable(path: str | None) -> str | None:
    if path is not None:
        refuse_unwritable(path)
    return path


def flag(names: str, help: str, *, show_default: bool = True) -> object:
    """Return an option that is given or not, or whose type says what it may be."""
    return typer.Option(*names.split(), help=help, show_default=show_default)


def arg(metavar: str, help: str, *, show_default: bool = True) -> object:
    """Return an argument that is known by its place."""
    return typer.Argument(metavar=metavar, help=help, show_default=show_default)


def group(help: str) -> typer.Typer:
    """Return a command with subcommands, which prints its help where none of them is named."""

    def top(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            write_lines([context.get_help()])

    top.__doc__ = help
    app = typer.Typer(rich_markup_mode=None)
    app.callback(invoke_without_command=True)(top)
    return app
