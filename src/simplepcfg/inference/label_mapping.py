"""Gold labels of a run's symbols, learned from a treebank, kept in a file and put into trees."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath

from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.label_report import LabelReport
from simplepcfg.inference.trained_model import TrainedModel

FORMAT = "simplepcfg labels 1"
MOST_BYTES = 64 << 20  # of a file of labels; that of thousands of symbols has a few hundred thousand
_NAME = re.compile(r"[^\s()]+")  # what can stand in bracketed trees


@dataclass(frozen=True, slots=True)
class LabelMapping:
    """Gold labels of nonterminals and preterminals; symbols that are in neither keep their own names."""

    phrases: Mapping[str, str]
    tags: Mapping[str, str]
    model: str | None = None  # the fingerprint of the weights whose symbols these are

    @classmethod
    def from_report(cls, report: LabelReport, run: TrainedModel | None = None) -> LabelMapping:
        """Map each symbol to its most frequent gold label."""
        tags = {} if report.tags is None else report.tags.mapping()
        return cls(report.phrases.mapping(), tags, None if run is None else weights_fingerprint(run))

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
        ):
            raise InputError(f"{fspath(path)}: no labels of symbols; let `simplepcfg evaluate` write them")
        return cls(mapping["phrases"], mapping["tags"], mapping["model"])

    def to_dict(self) -> dict[str, object]:
        """Return the content of the file."""
        return {"format": FORMAT, "model": self.model, "phrases": dict(self.phrases), "tags": dict(self.tags)}

    def refuse_other(self, run: TrainedModel) -> None:
        """Refuse another run, in which the numbers of symbols mean something else."""
        if self.model is not None and self.model != weights_fingerprint(run):
            raise InputError(f"{run.name}: the labels are of another run; let `simplepcfg evaluate` write its own")

    def apply(self, tree: SpanTree) -> SpanTree:
        """Return the tree with gold labels in place of symbols."""
        return SpanTree(
            tree.words,
            tuple(self.tags.get(tag, tag) for tag in tree.tags),
            tuple((i, j, self.phrases.get(label, label)) for i, j, label in tree.spans),
        )


def weights_fingerprint(run: TrainedModel) -> str:
    """Return the first digits of SHA-256 over the names and values of all weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(run.model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _is_names(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) and _NAME.fullmatch(name) for name in value.values())
