"""The reference page of configuration keys, generated from the code."""

from typing import Any, Literal, get_args, get_origin

from simplepcfg.models import KINDS
from simplepcfg.runs.config.keys import REQUIRED, Key, all_keys
from simplepcfg.runs.config.schema import RunConfig

# Keys that DataConfig inherits from Preprocessing, where they have no description.
INHERITED = {
    "data.lowercase": "Lower-case every word.",
    "data.numbers": "`N` writes every number as `N`.",
    "data.punctuation": "`drop` removes punctuation: by tag in Penn-style trees, else what has no letter or digit.",
    "data.eos": "End every sentence with the word `<eos>`, as language models do.",
    "data.tokenize": "Lines are sentences as people write them: `fire.` becomes `fire .` and `don’t` becomes `do n’t`, "
    "by Penn's conventions. If false, words are what stands between white space.",
}

# The keys that people change first, in the order in which they meet them.
FIRST = (
    "data.train",
    "data.valid",
    "data.vocabulary_size",
    "data.max_length",
    "model.nonterminals",
    "model.preterminals",
    "training.epochs",
    "training.batch_size",
    "training.learning_rate",
    "seed",
)

INTRODUCTION = """# Configuration keys

Change a key of a built-in configuration on the command line:

    simplepcfg train sn-pcfg-128 --train train.txt --out runs/mine --set training.epochs=3 --set model.nonterminals=64

Written by `python -m simplepcfg.runs.config.reference`; change the code, not this page. In a file each
section below is a table; on the command line a key is written in full, as in `--set training.epochs=3`; in the
environment it is `SIMPLEPCFG_TRAINING__EPOCHS=3`, and a variable `SIMPLEPCFG_…` that names no key is refused. Command
line beats environment beats file beats default. Paths are relative to the folder from which the command is run."""


HEADER = ("| key | type | default | meaning |", "|---|---|---|---|")


def config_reference() -> str:
    """Return the page as Markdown: one table for each group of keys, with type, limits, default and meaning."""
    groups: dict[tuple[str, type], list[Key]] = {}
    for key in all_keys():
        groups.setdefault((key.name.rpartition(".")[0], key.owner), []).append(key)
    parts = [INTRODUCTION, "\n## The ten keys that people change first\n", *HEADER]
    parts += [_row(next(key for key in all_keys() if key.name == name)) for name in FIRST]
    for (table, owner), keys in groups.items():
        title = f"`[{table}]`" if table else "Top level"
        title += "".join(f' with `kind = "{kind}"`' for kind, config in KINDS.items() if config is owner)
        about = ((owner if table else RunConfig).__doc__ or "").strip().splitlines()[0]
        parts += [f"\n## {title}\n", f"{about}\n", *HEADER]
        parts += [_row(key) for key in keys]
    return "\n".join(parts) + "\n"


def _row(key: Key) -> str:
    default = "required" if key.default is REQUIRED else "none" if key.default is None else _toml(key.default)
    meaning = key.description or INHERITED.get(key.name, "")
    cells = [f"`{key.name}`", _type(key.annotation) + _limits(key.limits), default, meaning]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _toml(value: Any) -> str:
    """Return a value as TOML, set as code."""
    return f"`{_literal(value)}`"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    return str(value)


def _type(annotation: Any) -> str:
    """Return a type in plain words: text, whole number, number, true or false, or the values to choose from."""
    if get_origin(annotation) is Literal:
        return " or ".join(_toml(choice) for choice in get_args(annotation))
    words = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    if annotation in words:
        return words[annotation]
    inner = [_type(part) for part in get_args(annotation) if part not in (type(None), Ellipsis)]
    if get_origin(annotation) is tuple:
        return "list of " + ", ".join(inner)
    return " or ".join(dict.fromkeys(inner)) or str(annotation)


def _limits(limits: tuple[Any, ...]) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [
        f"{sign} {bound}"
        for item in limits
        for name, sign in signs.items()
        if (bound := getattr(item, name, None)) is not None and bound < 2**31
    ]
    return f" ({', '.join(found)})" if found else ""


if __name__ == "__main__":
    print(config_reference(), end="")
