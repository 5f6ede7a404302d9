"""The vocabulary and the text of a run that a control is to be like."""

from __future__ import annotations

import json

from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.pretrained import run_directory
from simplepcfg.runs.checksums import record_is_intact
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import Corpus
from simplepcfg.runs.run_folder import RunFolder


def vocabulary_and_config(name: str) -> tuple[Vocabulary, RunConfig]:
    """Return the words that a run knows, and its configuration; it need not have been trained to its end."""
    folder = RunFolder(run_directory(name))
    folder.require_own(folder.config, folder.vocabulary)
    return Vocabulary.load(folder.vocabulary), folder.read_config()


def changed_text_remark(name: str, corpus: Corpus) -> str | None:
    """Return what to say if a corpus, read from the files of a run, is not what the run learned from; None if it is.

    Nothing is said of a run whose run.json is missing or damaged.
    """
    try:
        facts = json.loads(RunFolder(run_directory(name)).facts.read_bytes())
        known = (
            {part: facts["data"][part]["sha256"] for part in ("train", "valid")} if record_is_intact(facts) else None
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    identity = corpus.identity()
    if known is None or all(identity[part]["sha256"] == known[part] for part in known):
        return None
    return (
        f"--like {name}: its text or vocabulary has changed since it was trained, as the checksums in its run.json "
        "say; the control learns from what is there now"
    )
