"""Loading and saving configurations: overrides beat the environment, which beats the file, which beats defaults."""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import tomli_w
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from simplepcfg.errors import InputError, counted
from simplepcfg.files import Record, write_text
from simplepcfg.models import KINDS
from simplepcfg.runs.checksums import add_checksum_line
from simplepcfg.runs.config.keys import all_keys, nearest_key
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.version import __version__

# Pydantic's error types for a key that a model, or a dataclass, does not have.
UNKNOWN_KEY = {"extra_forbidden", "unexpected_keyword_argument"}
CONFIGS = resources.files("simplepcfg") / "configs"  # the folder of the built-in configurations
PREFIX = "SIMPLEPCFG_"
MAX_BYTES = 16 << 20  # A longer file is no configuration; it may be an endless device.
ENVIRONMENT = re.compile(rf"{PREFIX}(SEED|NAME|(?:DATA|MODEL|TRAINING)__\w+)")


def builtin_configs() -> list[str]:
    """Return the names of the configurations that come with the package."""
    return sorted(item.name.removesuffix(".toml") for item in CONFIGS.iterdir() if item.name.endswith(".toml"))


def load_config(
    source: str | Path | None = None,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> RunConfig:
    """Return the configuration of a TOML file or a built-in name, changed by overrides such as `training.epochs=3`.

    Environment variables such as SIMPLEPCFG_TRAINING__EPOCHS=3 override the file, and `overrides` override both.
    `environment` stands in for os.environ. Without a source the defaults are changed. Raises InputError for a file
    that cannot be read, an unknown key or SIMPLEPCFG_ variable, or a value that is not allowed.

    >>> load_config(overrides=["training.epochs=3"], environment={}).training.epochs
    3
    """
    name, text = ("", "") if source is None else _read(source)
    values = _parse(name, text)
    origins: dict[str, str] = {}
    for variable, value in sorted((os.environ if environment is None else environment).items()):
        if variable.startswith(PREFIX):
            match = ENVIRONMENT.fullmatch(variable)
            if match is None:
                raise InputError(_unknown_variable(variable))
            key = match[1].lower().replace("__", ".")
            _set(values, key, parse_value(value), variable)
            origins[key] = f"environment variable {variable}"
    for override in overrides:
        key, separator, value = override.partition("=")
        key = key.strip()
        if not separator or not key:
            raise InputError(f'override "{override}" is not of the form key=value, as in training.epochs=3')
        _set(values, key, parse_value(value.strip()), f'override "{override}"')
        origins[key] = f'override "{override}"'
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise InputError(_explain(error.errors(), name, text, origins) + _newer_version(name)) from None


def parse_value(text: str) -> object:
    """Return the TOML value of a text (3, 0.1, true, [1, 2], "a b"), or the text itself if it is no TOML value."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # It is no TOML, or a number too long or a list too deep for Python.
        return text


def save_config(config: RunConfig, path: str | Path) -> None:
    """Write all keys, defaults included, as TOML from which `load_config` reads the same configuration.

    The first line is a comment with a checksum, which is verified when the file is read as part of a run.
    """
    write_text(Path(path), add_checksum_line(tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))))


def _read(source: str | Path) -> tuple[str, str]:
    """Return the name, for messages, and the text of a file, or of a built-in configuration if no such file exists."""
    path = Path(source)
    looks_like_a_file = path.suffix == ".toml" or len(path.parts) > 1
    if not path.is_file() and not looks_like_a_file:
        names = builtin_configs()
        if str(source) in names:
            return f"built-in configuration {source}", (CONFIGS / f"{source}.toml").read_text("utf-8")
        close = difflib.get_close_matches(str(source), names, n=1)
        meant = f'; did you mean "{close[0]}"?' if close else f"; built in are {', '.join(names)}"
        raise InputError(f'"{source}" is neither a file nor a built-in configuration{meant}')
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise InputError(f"{path}: more than {MAX_BYTES >> 20} MiB, so no configuration; give a TOML file")
        return str(path), content.decode("utf-8-sig").replace("\r\n", "\n")  # some editors write a byte order mark
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); give a TOML file or one of {', '.join(builtin_configs())}"
        ) from None


def _parse(name: str, text: str) -> Record:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = re.search(r"\s*\(at line (\d+), column \d+\)", message)
        line = place[1] if place else text.count("\n") + 1
        message = message.replace(place[0] if place else " (at end of document)", "")
        raise InputError(f"{name}:{line}: not valid TOML: {message}") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error).split(";")[0]
        raise InputError(f"{name}: cannot be read ({reason}); write a shorter value") from None


def _set(values: Record, key: str, value: object, origin: str) -> None:
    """Put `value` at a dotted key, making the tables on the way."""
    *tables, leaf = key.split(".")
    for table in tables:
        inner = values.setdefault(table, {})
        if not isinstance(inner, dict):
            raise InputError(f'{origin}: "{table}" is a single value, not a table')
        values = inner
    values[leaf] = value


def _explain(errors: Sequence[ErrorDetails], name: str, text: str, origins: Mapping[str, str]) -> str:
    """Return one line for the first of pydantic's errors: the place, the key, what is wrong, what to write instead."""
    # A misspelt key explains more than the errors that follow from it.
    error = next((item for item in errors if item["type"] in UNKNOWN_KEY), errors[0])
    key, reason = _dotted(error), error["msg"].removeprefix("Value error, ")
    if named := re.match(rf"({re.escape(key)}\.\w+) = " if key else r"(\w+\.\w+) = ", reason):
        key = named[1]  # The error of a whole table names the key in its message.
    more = f" (and {counted(len(errors) - 1, 'more error')})" if len(errors) > 1 else ""
    line = key_line(text, key)
    place = _origin(key, origins, exact=bool(line)) or (f"{name}:{line}" if line else name) or "configuration"
    if error["type"] in UNKNOWN_KEY:
        kind = _kind(error)
        meant = nearest_key(key, kind)
        hint = f'; did you mean "{meant}"?' if meant else ""
        if kind is None or key not in {item.name for item in all_keys()}:
            return f'{place}: unknown key "{key}"{hint}{more}'
        chosen = origins.get("model.kind")
        if chosen is None or not line:  # The kind is the file's own, or an override set the key.
            having = dict.fromkeys(item.owner.kind for item in all_keys() if item.name == key)  # type: ignore[attr-defined]
            others = f"; kinds that have it: {', '.join(having)}"
            return f'{place}: a model of kind {kind} has no key "{key}"{hint or others}{more}'
        return f'{chosen}: a model of kind {kind} has no key "{key}", which {name} sets{_of_kind(kind)}{more}'
    if named:
        return f"{place}: {reason}{more}"
    given = "" if error["type"] == "missing" or isinstance(error["input"], dict) else f" = {_short(error['input'])}"
    return f"{place}: {key}{given}: {reason[:1].lower()}{reason[1:]}{more}"


def _short(value: object) -> str:
    """Return a value as error messages quote it, at most 80 characters."""
    try:
        text = repr(value)
    except ValueError:  # The number has more digits than Python converts to text.
        return "a very large number"
    return text if len(text) <= 80 else f"{text[:79]}…"


def _of_kind(kind: str) -> str:
    """Return the end of a message that names the built-in configurations of a kind."""
    texts = {name: tomllib.loads((CONFIGS / f"{name}.toml").read_text("utf-8")) for name in builtin_configs()}
    same_kind = [name for name, values in texts.items() if values.get("model", {}).get("kind") == kind]
    return f"; configurations of this kind: {', '.join(same_kind)}" if same_kind else ""


def _unknown_variable(variable: str) -> str:
    """Return one line about a SIMPLEPCFG_ variable that names no key."""
    names = {f"{PREFIX}{key.name.upper().replace('.', '__')}" for key in all_keys()}
    close = difflib.get_close_matches(variable.upper(), names, n=1, cutoff=0.8)
    meant = f"did you mean {close[0]}?" if close else "write SIMPLEPCFG_TABLE__KEY, such as SIMPLEPCFG_TRAINING__EPOCHS"
    return f"environment variable {variable} names no key; {meant}"


def _origin(key: str, origins: Mapping[str, str], exact: bool) -> str | None:
    """Return the override or variable that set a key; unless `exact`, also one that set a table above or below it."""
    if key in origins or exact:
        return origins.get(key)
    related = (name for name in origins if name.startswith(f"{key}.") or key.startswith(f"{name}."))
    return origins.get(next(related, ""))


def _newer_version(name: str) -> str:
    """Return the end of a message about a run's configuration if a later version of this package wrote the run."""
    if not name:  # settings without a file
        return ""
    facts = Path(name).with_name("run.json")
    if not facts.is_file():  # a pipe would be waited for
        return ""
    try:
        written = str(json.loads(facts.read_text("utf-8"))["simplepcfg"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    if Path(name).name != "config.toml" or _release(written) <= _release(__version__):
        return ""
    return f"; the run was written by simplepcfg {written}, this is {__version__}: upgrade"


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _dotted(error: ErrorDetails) -> str:
    """Return the dotted key of an error without pydantic's additions (the tag of a union, an index in a list)."""
    parts = [part for part in error["loc"] if isinstance(part, str)]
    if _kind(error):
        del parts[1]
    return ".".join(parts)


def _kind(error: ErrorDetails) -> str | None:
    """Return the kind of model that an error is about, which is pydantic's tag of the union."""
    place = error["loc"]
    return str(place[1]) if len(place) > 1 and place[0] == "model" and place[1] in KINDS else None


def key_line(text: str, key: str) -> int | None:
    """Return the line number of a TOML text on which a dotted key is set, or None if it is not found."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[([\w.\-]+)\]", line):
            table = header[1]
            if table == key:
                return number
        elif (assigned := re.match(r"\s*([\w.\-]+)\s*=", line)) and key == ".".join(filter(None, [table, assigned[1]])):
            return number
    return None
