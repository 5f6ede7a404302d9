"""Runs on a model hub: fetch one into the local cache, publish the folder of another. Needs the extra `hub`."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from simplepcfg.errors import InputError, ResourceError
from simplepcfg.pretrained import run_directory

# All that a run needs; nothing else of a repository is fetched.
FILES = (
    "config.toml",
    "vocabulary.txt",
    "spelling.safetensors",
    "model.safetensors",
    "normaliser.safetensors",
    "README.md",
)
CARD = """---
library_name: simplepcfg
tags: [pcfg, grammar-induction, unsupervised-parsing]
---

# {name}

A probabilistic context-free grammar ({kind}) learned from raw text with [simplepcfg](https://pypi.org/project/simplepcfg/).

    import simplepcfg
    run = simplepcfg.Run.from_pretrained("{name}")
    run.parse(["the old dog slept by the fire"])[0].pretty_print()

Describe here the text it was trained on, its licence, and what the trees were compared with.
"""


def fetch(name: str, revision: str | None = None, token: str | None = None, endpoint: str | None = None) -> Path:
    """Return the folder of a run: one on disk, an installed grammar, or a repository of the hub."""
    local = run_directory(name)
    if local.is_dir():
        if revision is not None:
            raise InputError(f"{name} is a folder here, which has no revision {revision}; leave it out")
        return local
    hub = _library()
    try:
        fetched = hub.snapshot_download(
            name, revision=revision, token=token, endpoint=endpoint, allow_patterns=list(FILES)
        )
    except Exception as error:  # of several libraries: no such repository, no network, no permission
        raise InputError(f"{name}: neither a folder nor fetched from the hub ({_one_line(error)})") from None
    return Path(fetched)


def publish(folder: Path, repository: str, message: str, private: bool, token: str | None, endpoint: str | None) -> str:
    """Upload the files of a run in one commit, making the repository if there is none; the commit's address."""
    hub = _library()
    api = hub.HfApi(endpoint=endpoint, token=token)
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=repository, folder_path=str(folder), allow_patterns=list(FILES), commit_message=message
        )
    except Exception as error:
        raise ResourceError(f"{repository}: could not be uploaded ({_one_line(error)})") from None
    return str(getattr(done, "commit_url", done))


def write_card(folder: Path, name: str, kind: str) -> None:
    """Write a model card to begin with, unless there is one."""
    card = folder / "README.md"
    if not card.exists():
        card.write_text(CARD.format(name=name, kind=kind), encoding="utf-8")


def _library() -> ModuleType:
    try:
        import huggingface_hub
    except ImportError:
        raise InputError("the hub needs huggingface_hub; pip install '.[hub]' in a checkout") from None
    return huggingface_hub


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
