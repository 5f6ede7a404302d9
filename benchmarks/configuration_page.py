"""The page of configuration keys, docs/configuration.md, made from the code; render.py writes it."""

from typing import Literal, get_args, get_origin

from simplepcfg.models import KINDS
from simplepcfg.runs.config.keys import Key, all_keys
from simplepcfg.runs.config.schema import RunConfig

# Keys that DataConfig inherits from Preprocessing, where they have no description.
INHERITED = {
    "data.lowercase": "Lower-case every word.",
    "data.numbers": "`N` writes every number as `N`.",
    "data.punctuation": "`drop`: by tag in Penn-style trees, else what has no letter or digit.",
    "data.eos": "End every sentence with the word `<eos>`, as language models do.",
    "data.tokenize": "Split words by Penn's conventions: `fire.` becomes `fire .` and `don’t` becomes `do n’t`. "
    "If false, words are what stands between white space.",
    "data.language": "Code of the language by whose rules words are split, such as `fr`.",
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

In a file each section below is a table; in the environment a key is `SIMPLEPCFG_TRAINING__EPOCHS=3`, and a variable
`SIMPLEPCFG_…` that names no key is refused. Command line beats environment beats file beats default. Paths are relative
to the folder from which the command is run. Defaults show the type: `3` is a whole number, `3.0` any number.
`python benchmarks/render.py` writes this page."""


HEADER = ("| key | default | meaning |", "|---|---|---|")
MODEL_HEADER = ("| key | kinds | default | meaning |", "|---|---|---|---|")
EVIDENT = {("ge", 0), ("ge", 1), ("gt", 0)}
MANY = 5  # So many values to choose from are counted, not listed.


def config_reference() -> str:
    """Return the page as Markdown: one table for each group of keys, with default, limits and meaning."""
    groups: dict[str, list[Key]] = {}
    for key in all_keys():
        groups.setdefault(key.name.rpartition(".")[0], []).append(key)
    first = ", ".join(f"`{name}`" for name in FIRST)
    parts = [INTRODUCTION, f"\nPeople change these first: {first}."]
    for table, keys in groups.items():
        parts += [f"\n## `[{table}]`\n" if table else "\n## Top level\n"]
        if table == "model":
            parts += ["Which of these keys a run has depends on `model.kind`.\n", *MODEL_HEADER]
            parts += _model_rows(keys)
        else:
            about = ((keys[0].owner if table else RunConfig).__doc__ or "").strip().splitlines()[0]
            parts += [f"{about}\n", *HEADER, *(_row(f"`{key.name}`", _default(key), key) for key in keys)]
    return "\n".join(parts) + "\n"


def _model_rows(keys: list[Key]) -> list[str]:
    """Return a row for each key of models, or several where it means different things to different kinds."""
    kinds = {config: kind for kind, config in KINDS.items()}
    names = list(dict.fromkeys(key.name for key in keys))
    alike: dict[tuple[str, str], list[Key]] = {}
    for key in sorted(keys, key=lambda key: names.index(key.name)):
        alike.setdefault((key.name, _meaning(key)), []).append(key)
    rows = []
    for (name, _), same in alike.items():
        owners: dict[str, list[str]] = {}
        for key in same:
            default = _toml(key.default) if name == "model.kind" else _default(key)
            owners.setdefault(default, []).append(kinds[key.owner])
        if len(owners) == 1 or name == "model.kind":
            default = next(iter(owners))
        else:
            default = "; ".join(f"{value} ({', '.join(of)})" for value, of in owners.items())
        which = "all" if len(same) == len(kinds) else ", ".join(kinds[key.owner] for key in same)
        rows.append(_row(f"`{name}` | {which}", default, same[0]))
    return rows


def _row(name: str, default: str, key: Key) -> str:
    cells = [cell.replace("|", "\\|").replace("\n", " ") for cell in (default, _meaning(key))]
    return "| " + " | ".join([name, *cells]) + " |"


def _meaning(key: Key) -> str:
    return key.description or INHERITED.get(key.name, "")


def _default(key: Key) -> str:
    """Return the default as TOML, with the other values that the key may have."""
    value = "none" if key.default is None else _toml(key.default)
    return value + _choices(key) + _limits(key.limits)


def _choices(key: Key) -> str:
    """Return the other values of a key that has few, as ` or …`."""
    if get_origin(key.annotation) is not Literal:
        return ""
    others = [choice for choice in get_args(key.annotation) if choice != key.default]
    return f" or {len(others)} others" if len(others) > MANY else "".join(f" or {_toml(choice)}" for choice in others)


def _toml(value: object) -> str:
    """Return a value as TOML, set as code."""
    return f"`{_literal(value)}`"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    return str(value)


def _limits(limits: tuple[object, ...]) -> str:
    """Return the limits of a number, without those that go without saying: at least 0, or 1, and below 2³¹."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = [
        f"{sign} {bound}"
        for item in limits
        for name, sign in signs.items()
        if (bound := getattr(item, name, None)) is not None and bound < 2**31 and (name, bound) not in EVIDENT
    ]
    return f" ({', '.join(bounds)})" if bounds else ""
