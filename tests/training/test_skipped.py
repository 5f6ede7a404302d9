"""A step that is skipped leaves its sentences behind; training goes on or stops, as it was told."""

import json
from pathlib import Path

import pytest
import torch

from simplepcfg.errors import NumericalError
from simplepcfg.models import SimpleNPCFG
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import loop, train
from simplepcfg.training.reporting.progress import Reporter
from toy_runs import leftovers


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Calls of the loss, counted from 0 over training batches, that give NaN."""
    original, calls, bad = SimpleNPCFG.loss, [0], set()

    def loss(self, words, lengths=None):
        value = original(self, words, lengths)
        if not self.training:
            return value
        calls[0] += 1
        return value * torch.nan if calls[0] - 1 in bad else value

    monkeypatch.setattr(SimpleNPCFG, "loss", loss)
    return bad


class Noting(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


def records(folder: RunFolder) -> list[dict]:
    return [json.loads(line) for line in folder.skipped.read_text().splitlines()]


def test_the_batch_of_a_skipped_step_is_named_and_kept(make_config, tmp_path: Path, poisoned: set[int]) -> None:
    poisoned.add(3)
    folder, reporter = RunFolder(tmp_path / "run"), Noting()
    result = train(make_config("training.epochs=1"), folder.path, reporter=reporter)
    assert result.skipped_steps == 1
    (record,) = records(folder)
    assert (record["step"], record["certain"], record["gradient_norm"]) == (4, True, None)
    assert len(record["sentences"]) == len(record["indices"]) == 8
    assert all(len(sentence.split()) >= 2 for sentence in record["sentences"])
    (said,) = [text for text in reporter.said if "skipped" in text]
    assert said == "step 4 skipped: no finite loss and gradient (norm nan); the sentences are in skipped.jsonl"


def test_stopping_at_once(make_config, tmp_path: Path, poisoned: set[int]) -> None:
    poisoned.add(3)
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(NumericalError, match=r"step 4 skipped: .*skipped\.jsonl; .*stop_at_skipped=false"):
        train(make_config("training.stop_at_skipped=true"), folder.path)
    assert len(records(folder)) == 1
    poisoned.clear()
    train(None, folder.path, resume=True)


def test_where_sums_are_read_late_all_candidates_are_kept(
    make_config, tmp_path: Path, poisoned: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "DELAYED_READ_DEVICES", {"cpu"})
    monkeypatch.setattr(loop, "COUNTER_READ_INTERVAL", 2)
    poisoned.add(3)
    folder = RunFolder(tmp_path / "run")
    config = make_config("training.epochs=2", "training.log_every=1000", "training.checkpoint_steps=0")
    train(config, folder.path)
    found = records(folder)
    assert 4 in [record["step"] for record in found]
    assert len(found) <= 4
    assert not any(record["certain"] for record in found)


def test_a_run_without_skipped_steps_has_no_such_file(whole: RunFolder) -> None:
    assert leftovers(whole.path) == []
