"""Checkpoints of a sharded grammar: a file of each process with its symbols, and an index that names these files.

The index is `checkpoint.safetensors` itself, with everything that all processes have alike. It is written last, when
the other files are on the disk, and names their checksums; files of earlier checkpoints are removed after that. So the
folder holds a whole checkpoint at every moment, which any number of processes can read.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from simplepcfg.errors import InputError, ResourceError
from simplepcfg.files import Record
from simplepcfg.models.sharding import Groups
from simplepcfg.ops.shards import join_parts
from simplepcfg.runs.checksums import DamagedFileError
from simplepcfg.runs.tensor_files import read_tensor_file, stored_metadata

Tensors = dict[str, torch.Tensor]
_NAME = re.compile(r"checkpoint-(\d+)-(\d+)-of-(\d+)\.safetensors")
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """Which part of the symbols a process has, and the parameters that have a row for each symbol."""

    rank: int
    size: int
    groups: Mapping[str, Groups]

    def is_sharded(self, name: str, tensor: torch.Tensor) -> bool:
        """Return whether a tensor of a checkpoint, such as `optimizer/symbols/exp_avg`, has a row for each symbol."""
        return name.split("/")[1] in self.groups and tensor.dim() > 0

    def file(self, index: Path, number: int, rank: int | None = None) -> Path:
        """Return the file of a process's symbols in the checkpoint with this number."""
        part = (self.rank if rank is None else rank) + 1
        return index.with_name(f"checkpoint-{number}-{part}-of-{self.size}.safetensors")

    def record(self, index: Path, number: int, check: Callable[[], None], seconds: float) -> Record:
        """Wait until the files of all processes are there; return their names and checksums, for the index.

        `check` is called meanwhile and may raise. Raises ResourceError if a file is not there after so many seconds.
        """
        files = [self.file(index, number, rank) for rank in range(self.size)]
        end = time.monotonic() + seconds
        while missing := next((file for file in files if not file.exists()), None):
            check()
            if time.monotonic() > end:
                raise ResourceError(
                    f"{missing}: was not written within {seconds / 60:g} minutes; all processes need the same folder"
                )
            time.sleep(_POLL_SECONDS)
        checksums = {file.name: stored_metadata(file).get("checksum") for file in files}
        return {"files": checksums, "groups": {name: list(groups) for name, groups in self.groups.items()}}


def read_shards(index: Path, record: Record) -> Tensors:
    """Return the whole tensors of the files that an index names.

    Raises DamagedFileError if a file is missing, damaged or another one.
    """
    parts: list[Tensors] = []
    for name, checksum in record["files"].items():
        file = index.with_name(name)
        if not _NAME.fullmatch(name) or not file.is_file():
            raise DamagedFileError(index, f"{name}, a part of it, is missing")
        parts.append(read_tensor_file(file).tensors)
        if stored_metadata(file).get("checksum") != checksum:
            raise DamagedFileError(file, f"it is not the part that {index.name} was written with")
    groups = record["groups"]
    try:
        return {name: join_parts([part[name] for part in parts], groups[name.split("/")[1]]) for name in parts[0]}
    except (KeyError, RuntimeError) as error:
        raise InputError(f"{index}: its parts do not fit ({error}); restore it from a copy") from None


def stored_shards(index: Path) -> Record | None:
    """Return what an index says about its parts, by its header alone; None for a checkpoint in one file or none."""
    try:
        shards: Record | None = json.loads(stored_metadata(index)["record"])["shards"]
    except (KeyError, ValueError, TypeError):
        return None
    return shards


def remove_old_shards(index: Path, kept: Record | None, number: int | None = None) -> None:
    """Remove files of shards that the index does not name; with `number`, only those up to that checkpoint."""
    names = {} if kept is None else kept["files"]
    for file in index.parent.glob("checkpoint-*-of-*.safetensors"):
        match = _NAME.fullmatch(file.name)
        if match and file.name not in names and (number is None or int(match[1]) <= number):
            file.unlink(missing_ok=True)
