"""Gold labels of a run's symbols, learned from a treebank, kept in a file and put into trees."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike, fspath
from pathlib import Path

from torch import nn

from simplepcfg.errors import InputError

FORMAT = "simplepcfg labels 1"
MOST_BYTES = 64 << 20  # of a file of labels; that of thousands of symbols has a few hundred thousand
_NAME = re.compile(r"[^\s()]+")  # what can stand in bracketed trees
_SYMBOL = {"phrase_shares": re.compile(r"NT-\d{1,7}"), "tag_shares": re.compile(r"T-\d{1,7}")}

Shares = Mapping[str, Mapping[str, float]]  # by symbol and label: P(label | symbol)


@dataclass(frozen=True, slots=True)
class LabelMapping:
    """Gold labels of nonterminals and preterminals; symbols that are in neither keep their own names.

    `phrases` and `tags` name each symbol by its likeliest label; by the shares of labels trees get theirs
    (`labelling.py`).
    """

    phrases: Mapping[str, str]
    tags: Mapping[str, str]
    model: str | None = None  # the fingerprint of the weights whose symbols these are
    phrase_shares: Shares = field(default_factory=dict)
    tag_shares: Shares = field(default_factory=dict)
    punctuation: Mapping[str, str] = field(default_factory=dict)  # tags of words that preprocessing drops

    @classmethod
    def load(cls, path: str | PathLike[str]) -> LabelMapping:
        """Read a file that `evaluate --write-labels` wrote."""
        try:
            with open(path, "rb") as stream:  # a device has no end
                content = stream.read(MOST_BYTES + 1)
            mapping = json.loads(content) if len(content) <= MOST_BYTES else None
        except (ValueError, RecursionError):
            mapping = None
        if not (
            isinstance(mapping, dict)
            and mapping.get("format") == FORMAT
            and all(_is_names(mapping.get(part)) for part in ("phrases", "tags"))
            and isinstance(mapping.get("model"), str | None)
            and all(_is_shares(mapping.get(part, {}), _SYMBOL[part]) for part in _SYMBOL)
            and _is_names(mapping.get("punctuation", {}))
        ):
            raise InputError(f"{fspath(path)}: no labels of symbols; let `simplepcfg evaluate` write them")
        optional = {part: mapping.get(part, {}) for part in (*_SYMBOL, "punctuation")}
        return cls(mapping["phrases"], mapping["tags"], mapping["model"], **optional)

    @classmethod
    def of_folder(cls, path: Path) -> LabelMapping | None:
        """Read the labels that a run's folder has; None if it has none."""
        return cls.load(path) if path.is_file() else None

    def to_dict(self) -> dict[str, object]:
        """Return the content of the file."""
        return {"format": FORMAT, **asdict(self)}

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=0) + "\n"

    def refuse_other(self, model: nn.Module, name: str) -> None:
        """Refuse another model, in which the numbers of symbols mean something else."""
        if self.model is not None and self.model != weights_fingerprint(model):
            raise InputError(f"{name}: the labels are of another run; let `simplepcfg evaluate` write its own")


def weights_fingerprint(model: nn.Module) -> str:
    """Return the first digits of SHA-256 over the names and values of all weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _is_names(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) and _NAME.fullmatch(name) for name in value.values())


def _is_shares(value: object, symbol: re.Pattern[str]) -> bool:
    return isinstance(value, dict) and all(
        symbol.fullmatch(name)
        and isinstance(row, dict)
        and all(_NAME.fullmatch(label) and isinstance(share, float | int) for label, share in row.items())
        for name, row in value.items()
    )
