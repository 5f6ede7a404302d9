"""Span marginals of teachers for every training sentence, packed in half precision and kept beside a run."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.files import Record
from simplepcfg.runs.checksums import DamagedFileError
from simplepcfg.runs.tensor_files import read_checked_tensor_file, write_tensor_file


class TeacherMarginals:
    """The marginals of the spans of two or more words of each sentence, and the largest sum that a tree has of them.

    `packed` is float16 with n (n − 1) / 2 numbers for a sentence of n words, sentence after sentence; `best` [S] is
    float32. The first `done` sentences have been computed.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = list(lengths)
        sizes = torch.tensor([n * (n - 1) // 2 for n in self.lengths], dtype=torch.int64)
        self._ends = sizes.cumsum(0).tolist()
        self.packed = torch.zeros(self._ends[-1] if self._ends else 0, dtype=torch.float16)
        self.best = torch.zeros(len(self.lengths))
        self.done = 0

    @property
    def is_complete(self) -> bool:
        """Whether all sentences have been computed."""
        return self.done == len(self.lengths)

    def append(self, tables: Sequence[Tensor], best: Tensor) -> None:
        """Add the next sentences: a table [n + 1, n + 1] of each, and their largest sums [B]."""
        for table in tables:
            n = self.lengths[self.done]
            rows, columns = _places(n)
            end = self._ends[self.done]
            self.packed[end - n * (n - 1) // 2 : end] = table[rows, columns].half()
            self.done += 1
        self.best[self.done - len(tables) : self.done] = best

    def of(self, indices: Sequence[int], n: int) -> Tensor:
        """Return the tables of these sentences, [B, n + 1, n + 1] in float32 with 0 beyond their ends."""
        tables = torch.zeros(len(indices), n + 1, n + 1)
        for length in {self.lengths[index] for index in indices}:  # Batches have few different lengths, mostly one.
            chosen = [row for row, index in enumerate(indices) if self.lengths[index] == length]
            ends = torch.tensor([self._ends[indices[row]] for row in chosen])
            packed = self.packed[ends[:, None] + torch.arange(-(length * (length - 1) // 2), 0)]
            rows, columns = _places(length)
            tables[torch.tensor(chosen)[:, None], rows, columns] = packed.float()
        return tables

    def save(self, path: Path, identity: Record) -> None:
        """Write what has been computed, with the identity of text and teachers; replaces an older file atomically."""
        record = {**identity, "done": self.done}
        write_tensor_file(path, {"packed": self.packed, "best": self.best}, record)

    @classmethod
    def load(cls, path: Path, lengths: Sequence[int], identity: Record) -> "TeacherMarginals":
        """Read a file of `save`, complete or not.

        Raises DamagedFileError if its checksum does not match, InputError if it is of another text or other teachers.
        """
        tensors, record, *_ = read_checked_tensor_file(path)
        stored = cls(lengths)
        expected = {name: (tensor.dtype, tensor.shape) for name, tensor in stored.state().items()}
        if {key: value for key, value in record.items() if key != "done"} != identity:
            raise InputError(f"{path}: is of another text or other teachers; restore it, or train into another folder")
        if {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()} != expected:
            raise DamagedFileError(path, "its tensors have other sizes")
        stored.packed, stored.best, stored.done = tensors["packed"], tensors["best"], int(record["done"])
        return stored

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that the file holds."""
        return {"packed": self.packed, "best": self.best}


@lru_cache(maxsize=256)
def _places(n: int) -> tuple[Tensor, Tensor]:
    """Return starts and ends of the spans of two or more words, in the order in which they are packed."""
    rows, columns = torch.triu_indices(n + 1, n + 1, offset=2)
    return rows, columns
