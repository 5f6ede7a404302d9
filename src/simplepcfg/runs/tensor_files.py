"""Safetensors files with a JSON record and a checksum in their header, written atomically; nothing is pickled."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from simplepcfg.errors import InputError, ResourceError
from simplepcfg.files import Record, chunks, crc32, write_bytes
from simplepcfg.runs.checksums import DamagedFileError
from simplepcfg.runs.memory import physical_memory

FORMAT = "simplepcfg-1"
_FORMAT = re.compile(r"simplepcfg-(\d+)")
# Keys of the header; any other key means damage or a later version.
_KEYS = {"format", "record", "checksum", "vocabulary"}
# The checksum is computed over the whole file with zeros in place of its digits.
_BEFORE_DIGITS, _DIGITS = b'"checksum":"crc32:', 8
_NO_CHECKSUM = "crc32:" + "0" * _DIGITS
# The longest header that safetensors accepts. Ours have a few kilobytes, or all words of a control's vocabulary.
_MAX_HEADER_BYTES = 100_000_000
# A weight NAME may be stored in int8, with a factor for each row as NAME.row_scale.
_ROW_SCALE = ".row_scale"


class TensorFile(NamedTuple):
    """Content of a tensor file."""

    tensors: dict[str, torch.Tensor]
    record: Record
    vocabulary: str | None  # checksum of the words that the weights belong to
    checksum: str  # of the file


def write_tensor_file(
    path: Path,
    tensors: Mapping[str, torch.Tensor],
    record: Record,
    renaming: AbstractContextManager[object] | None = None,
    vocabulary: str | None = None,
) -> None:
    """Replace `path` atomically by a safetensors file of `tensors` with `record` as JSON in its header.

    `renaming` is entered while the file is renamed; `vocabulary` is the checksum of the words of the weights.
    """
    metadata = {"format": FORMAT, "record": json.dumps(record), "checksum": _NO_CHECKSUM}
    if vocabulary is not None:
        metadata["vocabulary"] = vocabulary
    content = memoryview(save(dict(tensors), metadata=metadata))
    start = 8 + int.from_bytes(content[:8], "little")
    header = _in_order(bytes(content[8:start]))
    if len(header) > _MAX_HEADER_BYTES:  # safetensors writes such a file and refuses to read it
        raise InputError(f"{path}: its record has {len(header):,} bytes, too many for safetensors; take fewer words")
    place = header.index(_BEFORE_DIGITS) + len(_BEFORE_DIGITS)
    digits = f"{crc32([header, content[start:]]):0{_DIGITS}x}".encode()
    write_bytes(path, [header[:place], digits, header[place + _DIGITS :], content[start:]], renaming)


def _in_order(header: bytes) -> bytes:
    """Return a header with its length and its metadata in alphabetical order, so that equal files have equal bytes.

    safetensors keeps metadata in a hash table, whose order differs from process to process.
    """
    entries = json.loads(header)
    entries["__metadata__"] = dict(sorted(entries["__metadata__"].items()))
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight bytes
    return len(text).to_bytes(8, "little") + text


def read_tensor_file(path: Path) -> TensorFile:
    """Read a file of `write_tensor_file`, whose tensors are put on the CPU, and verify its checksum.

    Raises DamagedFileError if the file is damaged, InputError if it cannot be read or has another format, and
    ResourceError if it is larger than the memory of this machine.
    """
    with _opened(path, verified=True) as (stream, metadata):
        record = json.loads(metadata["record"])
        if not isinstance(record, dict):
            raise DamagedFileError(path, "its record is no JSON object")
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        return TensorFile(tensors, record, metadata.get("vocabulary"), metadata["checksum"])


def stored_shapes(path: Path) -> dict[str, list[int]]:
    """Return names and shapes by the header alone, so that a model can be refused before memory is taken for it."""
    with _opened(path) as (stream, _):
        return {name: stream.get_slice(name).get_shape() for name in stream.keys()}  # noqa: SIM118


@contextmanager
def _opened(path: Path, verified: bool = False) -> Iterator[tuple[Any, dict[str, str]]]:
    """Open a file, and verify its checksum if asked; provide the stream and the metadata of its header."""
    try:
        _refuse_larger_than_memory(path)
        if verified:
            _verify_checksum(path)
        with safe_open(path, framework="pt") as stream:
            metadata = stream.metadata() or {}
            _check_format(path, metadata)
            yield stream, metadata
    except InputError:
        raise
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise DamagedFileError(path, str(error)) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def stored_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a file by the header alone, empty if there is no header."""
    try:
        _refuse_larger_than_memory(path)
        with safe_open(path, framework="pt") as stream:
            return stream.metadata() or {}
    except (SafetensorError, OSError):
        return {}


def host_copy(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return copies on the CPU that share no memory with the originals or with one another."""
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def load_weights(model: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Load `tensors` into `model`; raise InputError, which names `path`, if they do not fit its configuration."""
    check_shapes(model, {name: list(tensor.shape) for name, tensor in tensors.items()}, path)
    model.load_state_dict(dict(tensors))


def assign_weights(model: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Make copies of `tensors` the weights of a model on torch's meta device; InputError if they do not fit.

    The tensors themselves may be a mapping of the file into memory, which changes if the file is written over.
    """
    check_shapes(model, {name: list(tensor.shape) for name, tensor in tensors.items()}, path)
    weights = {}
    for name, like in model.state_dict().items():
        scale = tensors.get(name + _ROW_SCALE)
        weights[name] = tensors[name].to(like.dtype, copy=True)
        if scale is not None:
            weights[name] *= scale.to(like.dtype)
    model.load_state_dict(weights, assign=True)


def quantised_rows(name: str, weight: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a matrix as int8 with a factor for each row, under the names that `assign_weights` reads."""
    scale = weight.float().abs().amax(-1, keepdim=True).clamp_min(1e-30) / 127
    return {name: (weight.float() / scale).round().to(torch.int8), name + _ROW_SCALE: scale}


def check_shapes(model: nn.Module, shapes: Mapping[str, list[int]], path: Path) -> None:
    """Raise InputError if weights of these shapes do not fit a model, which may be on torch's meta device."""
    expected = model.state_dict()
    shapes = {name: shape for name, shape in shapes.items() if not name.endswith(_ROW_SCALE)}
    missing, unknown = sorted(expected.keys() - shapes.keys()), sorted(shapes.keys() - expected.keys())
    if missing or unknown:
        name = (missing or unknown)[0]
        problem = "is missing" if missing else "has no place in the model"
        raise InputError(f"{path}: weight {name} {problem}; the file belongs to another configuration")
    for name, shape in shapes.items():
        if list(shape) != list(expected[name].shape):
            raise InputError(
                f"{path}: weight {name} has shape {list(shape)} instead of "
                f"{list(expected[name].shape)}; the file belongs to another configuration or vocabulary"
            )


def _refuse_larger_than_memory(path: Path) -> None:
    """Raise ResourceError before the file is read: one with holes can claim terabytes and take no room on a disk."""
    memory, size = physical_memory(), os.stat(path).st_size
    if memory is not None and size > memory > 0:
        raise ResourceError(
            f"{path}: has {size / 2**30:,.0f} GiB, and this machine has {memory / 2**30:,.0f} GiB of memory; "
            "use a machine with more"
        )


def _verify_checksum(path: Path) -> None:
    """Raise DamagedFileError if the bytes of a file do not match its checksum; `_check_format` refuses one without."""
    with open(path, "rb", buffering=0) as stream:
        size = int.from_bytes(stream.read(8), "little")
        if size > _MAX_HEADER_BYTES:
            return  # There is no valid header, which safetensors reports.
        header = stream.read(size)
        place = header.find(_BEFORE_DIGITS) + len(_BEFORE_DIGITS)
        if place < len(_BEFORE_DIGITS):
            return
        written = header[place : place + _DIGITS]
        blank = header[:place] + b"0" * _DIGITS + header[place + _DIGITS :]
        checksum = crc32(chunks(stream), crc32([size.to_bytes(8, "little"), blank]))
    if written != f"{checksum:0{_DIGITS}x}".encode():
        raise DamagedFileError(path, "its checksum does not match its content")


def _check_format(path: Path, metadata: Mapping[str, str]) -> None:
    """Raise InputError if the file has another format, and DamagedFileError if its header has unknown keys."""
    written = metadata.get("format")
    if written != FORMAT:
        number = _FORMAT.fullmatch(written or "")
        later = number is not None and int(number[1]) > int(FORMAT.rpartition("-")[2])
        fix = "a later version of simplepcfg wrote it: upgrade" if later else "it was written by another program"
        raise InputError(f'{path}: format "{written}" instead of "{FORMAT}"; {fix}')
    strange = next((key for key in metadata if key not in _KEYS), None)
    if strange is not None:
        raise DamagedFileError(path, f"unexpected {strange!r} in its header")
    if not re.fullmatch(r"crc32:[0-9a-f]{8}", metadata.get("checksum", "")):
        raise DamagedFileError(path, f"checksum {metadata.get('checksum')!r} of an unknown kind")
