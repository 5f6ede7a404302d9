"""Trained runs as grammars that others can install: a packed folder, and a wheel that registers it by name."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import torch

from simplepcfg.errors import InputError
from simplepcfg.files import write_text
from simplepcfg.grammars import FactoredEmissions
from simplepcfg.inference.label_mapping import weights_fingerprint
from simplepcfg.inference.run import Run
from simplepcfg.models.simple_npcfg import SimpleNPCFG
from simplepcfg.pretrained import GROUP
from simplepcfg.runs.config.files import save_config
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.runs.tensor_files import host_copy, quantised_rows, read_tensor_file, write_tensor_file
from simplepcfg.version import __version__

CARD = "README.md"
MOST_BFLOAT16 = 2_000_000  # numbers of a matrix; larger ones are stored in int8
PREFIX = "simplepcfg-"
_DISTRIBUTION = re.compile(rf"{PREFIX}[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "{version}"
description = "The grammar `{name}` for simplepcfg"
readme = "{module}/README.md"
requires-python = ">=3.11"
dependencies = ["simplepcfg>={needed}"]

[project.entry-points."{group}"]
{name} = "{module}"

[tool.hatch.build.targets.wheel]
packages = ["{module}"]
"""


def pack(run: Run, folder: Path, name: str) -> int:
    """Write a run as a grammar to be shipped into a new folder, and return its size in bytes.

    Weights are in bfloat16, and those of words, which are most of the size, in int8 with a factor for each word.
    Nothing that names the machine on which the run was trained is written, and no state of training. Sentences are
    taken as people write them (`data.tokenize`). The card is README.md of the run's folder. Raises InputError if
    there is none, or if the folder holds a run.
    """
    card = None if run.directory is None else run.directory / CARD
    if card is None or not card.is_file():
        raise InputError(f"{run.name}: has no {CARD}; write one, which says what it learned from and its licence")
    target = RunFolder(folder)
    target.refuse_if_taken()
    folder.mkdir(parents=True, exist_ok=True)
    weights: dict[str, torch.Tensor] = {}
    for key, tensor in host_copy(run.model.state_dict()).items():
        is_large = tensor.dim() == 2 and tensor.numel() > MOST_BFLOAT16
        weights |= quantised_rows(key, tensor) if is_large else {key: tensor.to(torch.bfloat16)}
    run.vocabulary.save(target.vocabulary)
    write_tensor_file(target.model, weights, run.best, vocabulary=run.vocabulary.checksum)
    if run.spelling is not None:
        write_tensor_file(target.spelling, run.spelling.to_tensors(), {})
    data = run.config.data.model_copy(update={"train": None, "valid": None, "tokenize": True, "raw": False})
    training = run.config.training.model_copy(update={"start_from": None, "teacher": ()})
    save_config(run.config.model_copy(update={"name": name, "data": data, "training": training}), target.config)
    rounded = load_run(folder, "cpu").model
    _write_normaliser(target, rounded)
    if run.labels is not None:  # they know the rounded weights
        fingerprint = weights_fingerprint(rounded)
        write_text(target.labels, run.labels.model_copy(update={"model": fingerprint}).to_json())
    write_text(folder / CARD, card.read_text(encoding="utf-8"))
    return sum(path.stat().st_size for path in folder.iterdir())


def _write_normaliser(folder: RunFolder, model: torch.nn.Module) -> None:
    """Write the log-normaliser of the emissions of a run, if they have one, so that loading need not compute it."""
    if not isinstance(model, SimpleNPCFG):
        return
    with torch.no_grad():
        emissions = model.grammar().emissions
    if isinstance(emissions, FactoredEmissions):
        checksum = read_tensor_file(folder.model).checksum
        write_tensor_file(folder.normaliser, {"log_normaliser": emissions.log_normaliser}, {"model": checksum})


def build_wheel(packed: Path, distribution: str, out: Path) -> Path:
    """Build the wheel of a packed grammar and return its path; it is known as what follows `simplepcfg-` in its name.

    Two builds from the same files have equal bytes. Raises InputError for another name, and without hatchling.
    """
    if not _DISTRIBUTION.fullmatch(distribution):
        raise InputError(f"{distribution}: no name of a grammar's package; take one such as {PREFIX}french")
    try:
        from hatchling.builders.wheel import WheelBuilder
    except ImportError:
        raise InputError("a package is built by hatchling; pip install '.[package]' in a checkout") from None
    module, name = distribution.replace("-", "_"), distribution.removeprefix(PREFIX)
    with TemporaryDirectory(prefix="simplepcfg-") as temporary:
        root = Path(temporary)
        copytree(packed, root / module)
        write_text(root / module / "__init__.py", f'"""The grammar `{name}` for simplepcfg: load("{name}")."""\n')
        needed = ".".join(__version__.split(".")[:2])
        settings = {"distribution": distribution, "module": module, "name": name, "version": __version__}
        write_text(root / "pyproject.toml", _PROJECT.format(**settings, group=GROUP, needed=needed))
        (built,) = WheelBuilder(str(root)).build(directory=str(out.absolute()), versions=["standard"])
    return out / Path(built).name
