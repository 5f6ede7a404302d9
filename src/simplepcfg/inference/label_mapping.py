"""The file labels.json: P(label | symbol) of a run's symbols, learned from a treebank (`labelling.py`)."""

from __future__ import annotations

import hashlib
import json
from os import PathLike, fspath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import nn

from simplepcfg.errors import InputError

MOST_BYTES = 64 << 20  # of a file of labels; that of thousands of symbols has a few hundred thousand

Label = Annotated[str, Field(pattern=r"^[^\s()]+$")]  # what can stand in bracketed trees
Nonterminal = Annotated[str, Field(pattern=r"^NT-[0-9]{1,7}$")]
Preterminal = Annotated[str, Field(pattern=r"^T-[0-9]{1,7}$")]
Shares = dict[str, dict[str, float]]  # by symbol and label: P(label | symbol)


class LabelMapping(BaseModel):
    """Gold labels of nonterminals and preterminals; symbols that are in neither keep their own names.

    `phrases` and `tags` name each symbol by its likeliest label; by the shares of labels trees get theirs
    (`labelling.py`).
    """

    model_config = ConfigDict(frozen=True, strict=True)

    format: Literal["simplepcfg labels 1"]
    phrases: dict[str, Label]
    tags: dict[str, Label]
    model: str | None = None  # the fingerprint of the weights whose symbols these are
    phrase_shares: dict[Nonterminal, dict[Label, float]] = {}
    tag_shares: dict[Preterminal, dict[Label, float]] = {}
    punctuation: dict[str, Label] = {}  # tags of words that preprocessing drops

    @classmethod
    def load(cls, path: str | PathLike[str]) -> LabelMapping:
        """Read a file that `evaluate --write-labels` wrote."""
        with open(path, "rb") as stream:
            content = stream.read(MOST_BYTES)  # a device has no end
        try:
            return cls.model_validate_json(content)
        except ValidationError:
            advice = "remove it, and `evaluate --write-labels` writes them"
            raise InputError(f"{fspath(path)}: no labels of symbols; {advice}") from None

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps(self.model_dump(), ensure_ascii=False, indent=0) + "\n"


def weights_fingerprint(model: nn.Module) -> str:
    """Return the first digits of SHA-256 over the names and values of all weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
