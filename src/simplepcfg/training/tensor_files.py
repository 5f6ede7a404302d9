"""Tensors and a JSON record in one safetensors file, written in one step. No pickle anywhere."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from simplepcfg.errors import InputError
from simplepcfg.training.files import write_bytes

FORMAT = "simplepcfg-1"


def write_tensor_file(
    path: Path,
    tensors: Mapping[str, torch.Tensor],
    record: dict[str, Any],
    renaming: AbstractContextManager[object] | None = None,
) -> None:
    """Replace `path` in one step by a safetensors file of `tensors` with `record` as JSON in its header."""
    content = save(dict(tensors), metadata={"format": FORMAT, "record": json.dumps(record)})
    write_bytes(path, content, renaming)


def read_tensor_file(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors (on the CPU) and the record of a file of write_tensor_file."""
    try:
        with safe_open(path, framework="pt") as stream:
            metadata = stream.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise InputError(
                    f'{path}: format "{metadata.get("format")}" instead of "{FORMAT}"; '
                    "it was written by another program or version"
                )
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            return tensors, json.loads(metadata["record"])
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: damaged ({error}); restore it from a copy") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def host_copy(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies on the CPU that share no memory with the originals or with one another."""
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def load_weights(model: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Put `tensors` into `model`; InputError in one line if they do not fit its configuration."""
    expected = model.state_dict()
    missing, unknown = sorted(expected.keys() - tensors.keys()), sorted(tensors.keys() - expected.keys())
    if missing or unknown:
        name = (missing or unknown)[0]
        problem = "is missing" if missing else "has no place in the model"
        raise InputError(f"{path}: weight {name} {problem}; the file belongs to another configuration")
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise InputError(
                f"{path}: weight {name} has shape {list(tensor.shape)} instead of "
                f"{list(expected[name].shape)}; the file belongs to another configuration"
            )
    model.load_state_dict(dict(tensors))
