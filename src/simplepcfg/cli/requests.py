"""Options of a command, declared once as the fields of a dataclass: the request that its function gets."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, TypeVar, dataclass_transform, get_type_hints

import typer
from typer.models import ParameterInfo

from simplepcfg.cli.output import refuse_unwritable

Request = TypeVar("Request")
Value = Any  # what an option stands for once a command runs
REQUIRED = ...  # typer's default of what must be given


@dataclass_transform(kw_only_default=True, frozen_default=True)
def options(request: type[Request]) -> type[Request]:
    """Make a class a frozen dataclass whose fields are the options of a command, with the options' own defaults."""
    for name in request.__annotations__:
        option = vars(request).get(name)
        if isinstance(option, ParameterInfo):
            default = MISSING if option.default is REQUIRED else option.default
            setattr(request, name, field(default=default, metadata={"option": option}))
    return dataclass(frozen=True, kw_only=True)(request)


def takes(request: type[Request]) -> Callable[[Callable[[Request], None]], Callable[..., None]]:
    """Make a function of one request a command whose options are the fields of this class."""
    hints = get_type_hints(request, include_extras=True)
    parameters = [
        Parameter(
            item.name,
            Parameter.KEYWORD_ONLY,
            default=item.metadata.get("option", item.default),
            annotation=hints[item.name],
        )
        for item in fields(request)  # type: ignore[arg-type]
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
    names: str, metavar: str, help: str, default: object = None, *, min: float | None = None, max: float | None = None
) -> Value:
    """Return an option with a value; `names` are separated by spaces, such as `--k -k`."""
    return typer.Option(default, *names.split(), metavar=metavar, help=help, min=min, max=max)


def written(names: str, help: str, default: object = None) -> Value:
    """Return an option that names a file to write; one that cannot be written is refused before any work is done."""
    return typer.Option(default, *names.split(), metavar="FILE", help=help, callback=refuse_unwritable)


def flag(names: str, help: str, default: object = False) -> Value:
    """Return an option that is given or not, or whose type says what it may be."""
    return typer.Option(default, *names.split(), help=help)


def arg(metavar: str | None, help: str, default: object = REQUIRED) -> Value:
    """Return an argument that is known by its place."""
    return typer.Argument(default, metavar=metavar, help=help, show_default=False)


def group(help: str) -> typer.Typer:
    """Return a command with subcommands; its help is plain text, as that of all commands."""
    return typer.Typer(help=help, rich_markup_mode=None)
