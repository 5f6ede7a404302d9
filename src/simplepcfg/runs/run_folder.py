"""Run folders: the files of a run, the lock against a second writer, and loading a trained model.

config.toml is written first and makes the folder a run. checkpoint.safetensors alone decides where training resumes:
metrics.jsonl is truncated to the length that it records, and model.safetensors can be restored from it.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError, NumericalError, counted
from simplepcfg.files import Record, crc32
from simplepcfg.models import Model, SimpleNPCFG, build_model
from simplepcfg.models.without_memory import without_memory
from simplepcfg.ops.modes import without_modes
from simplepcfg.pretrained import or_installed, run_directory
from simplepcfg.runs.checksums import DamagedFileError, verify_checksum_line
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.device import resolve_device
from simplepcfg.runs.tensor_files import assign_weights, check_shapes, read_tensor_file, stored_shapes
from simplepcfg.version import __version__

# Version of the folder as a whole: which files there are and what they mean. A later version is refused.
FORMAT = 1
HUB_FOLDER = "snapshots"  # in the cache of a model hub; beside it is `blobs`, with the files


class RunFolder:
    """Paths of the files of a run, and checks of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"  # every key of the configuration, defaults included
        self.vocabulary = path / "vocabulary.txt"  # the words of the vocabulary, one a line
        self.spelling = path / "spelling.safetensors"  # counts of words that are not in the vocabulary
        self.labels = path / "labels.json"  # what symbols stand for, if `evaluate` was asked to write it
        self.facts = path / "run.json"  # versions, seed, device, and fingerprints of the data
        self.model = path / "model.safetensors"  # weights of the best epoch by validation likelihood
        self.normaliser = path / "normaliser.safetensors"  # log-normaliser of the emissions of a packed grammar
        # Everything needed to resume: weights, best weights, optimiser, random state, position.
        self.checkpoint = path / "checkpoint.safetensors"
        self.metrics = path / "metrics.jsonl"  # losses, perplexities and counters; equal for equal runs
        self.timings = path / "timings.jsonl"  # wall-clock times, which differ between equal runs
        self.skipped = path / "skipped.jsonl"  # the batches of skipped steps, if there are any
        self.teacher = path / "teacher.safetensors"  # span marginals of the teachers, if there are any

    def read_spelling(self, vocabulary: Vocabulary) -> SpellingModel | None:
        """Read the spellings of words outside the vocabulary; None for a run of an earlier version, which has none."""
        if not self.spelling.exists():
            return None
        return SpellingModel.from_tensors(read_tensor_file(self.spelling).tensors, vocabulary, self.spelling)

    def read_normaliser(self, checksum: str) -> torch.Tensor | None:
        """Read the log-normaliser of the emissions, whose computation takes half a second, for the weights with this
        checksum; None if there is none for them."""
        if not self.normaliser.exists():
            return None
        content = read_tensor_file(self.normaliser)
        return content.tensors.get("log_normaliser") if content.record.get("model") == checksum else None

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that a run can have."""
        return tuple(path for name, path in vars(self).items() if name != "path")

    @property
    def resume_command(self) -> str:
        """The shell command that resumes this run."""
        return f"simplepcfg train --resume {shlex.quote(str(self.path))}"

    def holds_a_run(self) -> bool:
        """Return whether the folder holds any file of a run."""
        files = (self.config, self.checkpoint, self.model, self.metrics, self.facts)
        return any(file.exists() for file in files)

    def refuse_if_taken(self) -> None:
        """Raise InputError if a new run cannot be written here: no run is ever overwritten."""
        try:
            is_file = self.path.exists() and not self.path.is_dir()
            taken = self.config.exists()
        except OSError as error:  # a name too long, or below a folder that may not be entered
            raise InputError(f"{self.path}: cannot be a run folder ({error.strerror}); choose another") from None
        if is_file:
            raise InputError(f"{self.path} is a file; give a folder for the run")
        if taken and self.model.exists() and not self.checkpoint.exists():
            raise InputError(f"{self.path} already holds a model; choose another folder")
        if taken:
            raise InputError(
                f"{self.path} already holds a run; choose another folder, or go on with its training by "
                f"`{self.resume_command}`"
            )
        if self.holds_a_run():
            raise InputError(f"{self.path} holds parts of a run but no config.toml; choose another folder")

    def require(self, *files: Path) -> None:
        """Raise InputError that names the first of `files` that is missing."""
        if not self.path.is_dir():
            problem = "is a file, not a run folder" if self.path.is_file() else "no such run folder"
            raise InputError(
                f"{self.path}: {problem}; give one that `simplepcfg train` wrote (it holds config.toml)"
                f"{or_installed(self.path)}"
            )
        for file in files:
            if not file.is_file():
                if inner := runs_inside(str(self.path)):
                    runs = counted(len(inner), "run")
                    raise InputError(f"{self.path} is a folder of {runs}; name one, such as {inner[0]}")
                raise InputError(f"{self.path} is not a complete run: {file.name} is missing{self._advice(file)}")

    def require_own(self, *files: Path) -> None:
        """Raise InputError if one of `files` is missing or is a link out of the folder, except within a hub's cache."""
        self.require(*files)
        for file in files:
            self._refuse_link_out(file)

    def refuse_foreign_files(self) -> None:
        """Raise InputError if a file of the run, where it is there, is a link out of the folder, a pipe or a device.

        Training appends to some of these files and waits for others, so that it must not begin with such a folder.
        """
        for file in self.files:
            self._refuse_link_out(file)
            if os.path.lexists(file) and not file.is_file():
                raise InputError(f"{file}: is a pipe, a device, a folder or a broken link; remove it")

    def is_own(self, file: Path) -> bool:
        """Return whether a file of the run is there, a file, and within the folder; see `require_own`."""
        return file.is_file() and file.resolve().is_relative_to(self._boundary())

    def _refuse_link_out(self, file: Path) -> None:
        place = file.resolve()
        if not place.is_relative_to(self._boundary()):
            raise InputError(f"{file}: is a link out of the run folder, to {place}; put the file itself there")

    def _boundary(self) -> Path:
        """Return the folder that no link may leave: the run's own or, in the cache of a model hub, the model's."""
        inside = self.path.resolve()
        return inside.parent.parent if inside.parent.name == HUB_FOLDER else inside

    def read_config(self, overrides: Sequence[str] = ()) -> RunConfig:
        """Return the run's configuration, changed by overrides such as "training.epochs=3".

        Raises DamagedFileError if the file does not match its checksum.
        """
        advice = "restore it from a copy or, if you changed it on purpose, delete its first line"
        verify_checksum_line(self.config, advice)
        return load_config(self.config, overrides, environment={})

    def read_preprocessing(self) -> Preprocessing:
        """Return what the run does to a text before its model sees it."""
        return self.read_config().data.preprocessing.completed(Vocabulary.load(self.vocabulary).words)

    def check_vocabulary(self, vocabulary: Vocabulary, checksum: str | None) -> None:
        """Raise DamagedFileError if weights with this vocabulary checksum belong to other words.

        None is that of a file whose header cannot be read, which is reported where the file is loaded.
        """
        if checksum is not None and vocabulary.checksum != checksum:
            raise DamagedFileError(self.vocabulary, "these are not the words that the weights were trained with")

    def with_advice(self, error: DamagedFileError) -> InputError:
        """Return the error with advice about which other files of the run can still be used."""
        if error.path == self.model and _is_intact(self.checkpoint):
            advice = f"checkpoint.safetensors is intact, and `{self.resume_command}` writes the model again from it"
        elif error.path == self.checkpoint and _is_intact(self.model):
            advice = (
                "model.safetensors, the best weights so far, is intact and can be used; to go on, restore the "
                "checkpoint from a copy, or train into another folder with training.start_from"
            )
        else:
            return error
        return DamagedFileError(error.path, error.reason, advice)

    def _advice(self, file: Path) -> str:
        if file == self.model and self.config.is_file():
            return f"; no epoch has been finished yet, or it was removed: `{self.resume_command}` writes it"
        if file == self.config and not self.holds_a_run():
            return f"; give a folder that `simplepcfg train` wrote{or_installed(self.path)}"
        return "; restore it from a copy, or train again into another folder"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against a second training process; the lock ends with the process.

        Raises InputError if another process holds the lock.
        """
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            yield
            return
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{self.path}: another process is training here; wait for it or stop it") from None
            except OSError:  # a file system without locks
                pass
            yield
        finally:
            os.close(descriptor)


def run_facts(config: RunConfig, device: torch.device, data: Record) -> Record:
    """Return the content of run.json: versions, device, seed, and the fingerprints of the data."""
    return {
        "format": FORMAT,
        "simplepcfg": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "threads": torch.get_num_threads(),
        "seed": config.seed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": data,
    }


def program_identity() -> str:
    """Return the versions of this package and of torch, with a checksum of the package's source files."""
    sources = sorted(Path(__file__).parents[1].rglob("*.py"))
    return f"{__version__} {torch.__version__} {crc32(file.read_bytes() for file in sources):08x}"


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A trained model with its configuration and vocabulary."""

    directory: Path
    config: RunConfig
    vocabulary: Vocabulary
    model: Model
    device: torch.device
    best: Record  # epoch, step and validation perplexity of these weights
    spelling: SpellingModel | None = None


@without_modes
def load_run(directory: str | Path, device: str = "auto") -> LoadedRun:
    """Load the best model of a run folder, in evaluation mode, onto `device`.

    `directory` may be the name of an installed grammar. Raises InputError if the folder is no complete run or a file is
    damaged, and NumericalError if a weight is not finite.

        run = load_run("runs/first", device="cpu")
        run.model.grammar()
    """
    folder = RunFolder(run_directory(directory))
    folder.require_own(folder.config, folder.vocabulary, folder.model)
    config = folder.read_config()
    vocabulary = Vocabulary.load(folder.vocabulary)
    chosen = resolve_device(device)
    try:
        shapes = stored_shapes(folder.model)
        with without_memory():  # Initial weights would be overwritten at once, and drawing them takes time.
            model = build_model(config.model, len(vocabulary))
        check_shapes(model, shapes, folder.model)
        tensors, best, vocabulary_checksum, checksum = read_tensor_file(folder.model)
    except DamagedFileError as error:
        raise folder.with_advice(error) from None
    folder.check_vocabulary(vocabulary, vocabulary_checksum)
    assign_weights(model, tensors, folder.model)
    for name, tensor in model.state_dict().items():
        # Unlike isfinite, aminmax takes no memory.
        if tensor.numel() and not all(bound.isfinite() for bound in tensor.aminmax()):
            raise NumericalError(f"{folder.model}: {name} is not finite; the weights are damaged, train it again")
    model = model.to(chosen).eval()
    if isinstance(model, SimpleNPCFG) and (log_normaliser := folder.read_normaliser(checksum)) is not None:
        model.keep_normaliser(log_normaliser)
    spelling = folder.read_spelling(vocabulary)
    return LoadedRun(folder.path, config, vocabulary, model, chosen, best, spelling)


def _is_intact(path: Path) -> bool:
    """Return whether a tensor file can be read and matches its checksum."""
    try:
        read_tensor_file(path)
    except InputError:
        return False
    return True


def runs_inside(name: str) -> list[str]:
    """Return the finished runs in a folder that is no run itself, by name and with numbers in their order.

    If there are none, those of the folders in it: of `distil`, the members of all configurations.
    """
    folder = Path(name)
    try:
        if not folder.is_dir() or RunFolder(folder).holds_a_run():
            return []
        inside = sorted(folder.iterdir(), key=_order)
        groups = [[each] for each in inside if RunFolder(each).model.is_file()]
        groups = groups or [sorted(each.iterdir(), key=_order) for each in inside if each.is_dir()]
        return [str(run) for group in groups for run in group if RunFolder(run).model.is_file()]
    except OSError:
        return []


def _order(path: Path) -> list[tuple[int, str]]:
    """Return the key by which seed-10 comes after seed-9."""
    parts = re.split(r"([0-9]+)", path.name)
    return [(int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in parts]
