"""What a run does with its text, its gradients and its patience."""

import json
import math
from pathlib import Path

import pytest
import torch

from simplepcfg.errors import InputError, NumericalError
from simplepcfg.evaluation.perplexity import PerplexityReport
from simplepcfg.models import SimpleNPCFG
from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.training import PlainReporter, loop, train
from simplepcfg.training.checkpoint_saver import CheckpointSaver
from simplepcfg.training.loop import MAX_SKIPPED_IN_A_ROW, Trainer


def records(folder: Path, kind: str) -> list[dict]:
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def test_training_lowers_validation_perplexity(make_config, tmp_path: Path) -> None:
    train(make_config("training.epochs=8", "training.learning_rate=0.02"), tmp_path / "run")
    perplexities = [record["valid_perplexity"] for record in records(tmp_path / "run", "epoch")]
    assert perplexities[-1] < 0.8 * perplexities[0]


def test_what_is_left_out_is_said(make_config, tmp_path: Path, capsys) -> None:
    lines = ["one", "...", *["a b c"] * 30, "a b c d e f g h"]
    result = train(
        make_config("training.epochs=1", "data.max_length=7"),
        tmp_path / "run",
        train_text=lines,
        valid_text=["a b", "c"],
        reporter=PlainReporter(),
    )
    said = capsys.readouterr().err
    for note in (
        "1 of 33 training sentences left out: with nothing left after preprocessing",
        "1 of 33 training sentences left out: of one word (they have no tree)",
        "1 of 33 training sentences left out: longer than data.max_length = 7",
    ):
        assert note in result.notes
        assert note in said
    assert "3 tokens: sum of (length + 1); 1 sentence; 1 one-word sentence left out" in said


def test_held_out_sentences_are_said_and_not_trained_on(make_config, tmp_path: Path, capsys) -> None:
    lines = ["w" * number + " x y" for number in range(1, 41)]
    train(
        make_config("training.epochs=1", "data.min_count=1"),
        tmp_path / "run",
        train_text=lines,
        reporter=PlainReporter(),
        device="cpu",
    )
    assert "2 sentences of the training text held out (seed 0)" in capsys.readouterr().err
    facts = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert (facts["data"]["train"]["sentences"], facts["data"]["valid"]["sentences"]) == (38, 2)
    assert facts["data"]["vocabulary"] == 2 + 38 + 2  # specials, x and y, and no word of the held-out sentences


@pytest.mark.parametrize("eos", [False, True])
def test_validation_denominator(make_config, tmp_path: Path, eos: bool) -> None:
    train(
        make_config("training.epochs=1", f"data.eos={str(eos).lower()}"),
        tmp_path / "run",
        train_text=["a b c", "a b"] * 5,
        valid_text=["a b c d", "b a", "a"],
    )
    # With <eos> the one-word sentence has two tokens and counts; without, the two others count length + 1.
    assert records(tmp_path / "run", "epoch")[0]["valid_tokens"] == (5 + 3 + 2 if eos else 5 + 3)


def test_trees_are_read_for_their_words(make_config, tmp_path: Path) -> None:
    file = tmp_path / "train.trees"
    file.write_text("(S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))\n" * 8, "utf-8")
    train(make_config("training.epochs=1", f'data.train="{file}"'), tmp_path / "run")
    assert set(load_run(tmp_path / "run").vocabulary.words[2:]) == {"the", "dog", "barks"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "at least 2 are needed"),
        (["a b"], "at least 2 are needed"),
        (["a b c", "a b c"], "no training sentence is left"),
        ([["a", 3], ["a", "b"]], "sentence 0: 3 is not a string"),
    ],
)
def test_too_little_text(make_config, tmp_path: Path, lines: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(make_config("data.max_length=2"), tmp_path / "run", train_text=lines)
    assert not (tmp_path / "run").exists()


def test_too_little_text_names_the_file(make_config, tmp_path: Path) -> None:
    file = tmp_path / "short.txt"
    file.write_text("a\nb\n", "utf-8")
    with pytest.raises(InputError, match=r"short\.txt has 0 sentences of two words or more"):
        train(make_config(f'data.train="{file}"'), tmp_path / "run")
    with pytest.raises(InputError, match=r"short\.txt has no sentence of two words or more to validate on"):
        train(make_config(f'data.valid="{file}"'), tmp_path / "run")


@pytest.mark.parametrize("name", ["file/below", "x" * 300])
def test_folder_that_cannot_be_made(make_config, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be .*; choose another"):
        train(make_config(), tmp_path / name)


def test_no_text_at_all(make_config, tmp_path: Path) -> None:
    config = make_config()
    config = config.model_copy(update={"data": config.data.model_copy(update={"train": None})})
    with pytest.raises(InputError, match=r"no training text; give --train FILE"):
        train(config, tmp_path / "run")


def test_patience_ends_a_run_and_keeps_the_best(make_config, tmp_path: Path, monkeypatch) -> None:
    scores = iter([-10.0, -9.0, -9.0, -9.5, -1.0])

    def validate(self: Trainer) -> PerplexityReport:
        value = next(scores)
        return PerplexityReport(value, 10, math.exp(-value / 10), 5, 0, 0, False)

    monkeypatch.setattr(Trainer, "_validate", validate)
    result = train(make_config("training.epochs=9", "training.patience=2"), tmp_path / "run")
    assert (result.epochs, result.stopped_by, result.best.epoch) == (4, "patience", 2)
    assert [record["best"] for record in records(tmp_path / "run", "epoch")] == [True, True, False, False]
    checkpoint = Checkpoint.load(RunFolder(tmp_path / "run").checkpoint)
    assert checkpoint.state.epochs_without_gain == 2
    best = load_run(tmp_path / "run", "cpu").model.state_dict()
    assert all(torch.equal(best[name], checkpoint.best_weights[name]) for name in best)
    assert any(not torch.equal(best[name], checkpoint.weights[name]) for name in best)


def test_a_time_limit_ends_a_run_after_an_epoch(make_config, tmp_path: Path, monkeypatch) -> None:
    """Each epoch is taken to last 30 seconds, so that a minute is over after two."""
    monkeypatch.setattr(CheckpointSaver, "elapsed_seconds", lambda saver, state: 30.0 * state.epoch)
    result = train(make_config("training.epochs=5", "training.max_minutes=1"), tmp_path / "run")
    assert (result.epochs, result.stopped_by) == (2, "max_minutes")
    assert result.best.epoch in (1, 2)
    more = train(make_config("training.epochs=5", "training.max_minutes=2"), tmp_path / "run", resume=True)
    assert (more.epochs, more.stopped_by) == (4, "max_minutes")
    rest = train(make_config("training.epochs=5"), tmp_path / "run", resume=True)
    assert (rest.epochs, rest.stopped_by) == (5, "epochs")


def test_impossible_sentences_rank_below_any_likelihood(make_config, tmp_path: Path, monkeypatch) -> None:
    reports = iter(
        [
            PerplexityReport(-5.0, 10, math.inf, 5, 0, 1, False),
            PerplexityReport(-50.0, 10, 148.0, 5, 0, 0, False),
        ]
    )
    monkeypatch.setattr(Trainer, "_validate", lambda self: next(reports))
    assert train(make_config("training.epochs=2"), tmp_path / "run").best.epoch == 2


def poison_gradients(monkeypatch, steps: range) -> None:
    """Make the gradient of some steps NaN, though the loss is fine."""
    original, calls = SimpleNPCFG.loss, iter(range(10**6))

    def loss(self, words, lengths=None):
        value = original(self, words, lengths)
        if next(calls) in steps:
            value.register_hook(lambda gradient: gradient * math.nan)
        return value

    monkeypatch.setattr(SimpleNPCFG, "loss", loss)


def test_step_with_nonfinite_gradient_moves_nothing(make_config, tmp_path: Path, monkeypatch) -> None:
    poison_gradients(monkeypatch, range(1, 10**6))
    config = make_config("training.epochs=1")
    result = train(config, tmp_path / "run")
    assert result.skipped_steps == result.steps - 1
    checkpoint = Checkpoint.load(RunFolder(tmp_path / "run").checkpoint)
    assert {float(value) for name, value in checkpoint.optimizer.items() if name.endswith("/step")} == {1.0}
    assert all(torch.isfinite(value).all() for value in checkpoint.weights.values())
    assert records(tmp_path / "run", "epoch")[0]["skipped_steps"] == result.skipped_steps


def test_a_finite_step_resets_the_count(make_config, tmp_path: Path, monkeypatch) -> None:
    poison_gradients(monkeypatch, range(2, 4))
    train(make_config("training.epochs=1"), tmp_path / "run")
    state = Checkpoint.load(RunFolder(tmp_path / "run").checkpoint).state
    assert (state.skipped_steps, state.skipped_in_a_row) == (2, 0)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ([], "; set training.network_lr_multiplier=0.1 or lower training.learning_rate"),
        (["training.network_lr_multiplier=0.1"], "; lower training.learning_rate"),
        (["model.rms_norm=true"], "; lower training.learning_rate"),
    ],
)
def test_twenty_nonfinite_steps_in_a_row_end_the_run(
    make_config, tmp_path: Path, monkeypatch, settings: list[str], advice: str
) -> None:
    poison_gradients(monkeypatch, range(10**6))
    config = make_config("training.epochs=50", "training.patience=0", *settings)
    with pytest.raises(NumericalError, match=f"{MAX_SKIPPED_IN_A_ROW} steps in a row") as caught:
        train(config, tmp_path / "run")
    assert caught.value.exit_code == 3
    assert str(caught.value).endswith(advice)  # fp32 is in use already


def test_twenty_nonfinite_steps_are_seen_where_sums_are_read_late(make_config, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(loop, "DELAYED_READ_DEVICES", {"cpu"})
    poison_gradients(monkeypatch, range(5, 5 + MAX_SKIPPED_IN_A_ROW))  # and then all is well again
    config = make_config("training.epochs=50", "training.patience=0", "training.log_every=1000")
    with pytest.raises(NumericalError, match=f"{MAX_SKIPPED_IN_A_ROW} steps in a row"):
        train(config, tmp_path / "run")


def test_impossible_sentence_does_not_spoil_its_batch(make_config, tmp_path: Path, monkeypatch) -> None:
    original = SimpleNPCFG.loss

    def loss(self, words, lengths=None):
        value = original(self, words, lengths)
        return torch.where(torch.arange(len(value)) == 0, torch.inf, value)

    monkeypatch.setattr(SimpleNPCFG, "loss", loss)
    result = train(make_config("training.epochs=1"), tmp_path / "run")
    state = Checkpoint.load(RunFolder(tmp_path / "run").checkpoint).state
    assert (result.skipped_steps, state.impossible_sentences) == (0, result.steps)


def test_learning_rate_rises_then_falls(make_config, tmp_path: Path) -> None:
    train(make_config("training.log_every=1"), tmp_path / "run")
    rates = [record["learning_rate"] for record in records(tmp_path / "run", "steps")]
    top = rates.index(max(rates))
    assert top == 3
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert 0 < rates[-1] < 0.1 * 0.002


def test_out_of_memory_is_a_resource_error(make_config, tmp_path: Path, monkeypatch) -> None:
    from simplepcfg.errors import ResourceError

    def loss(self, words, lengths=None):
        raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes.")

    monkeypatch.setattr(SimpleNPCFG, "loss", loss)
    with pytest.raises(ResourceError, match=r"out of memory while training; begin .* training\.batch_size"):
        train(make_config(), tmp_path / "run")


@pytest.mark.parametrize("device", ["cuda:99", "tpu", "meta"])
def test_devices_that_are_not_there(make_config, tmp_path: Path, device: str) -> None:
    with pytest.raises(InputError, match=f'device "{device}"'):
        train(make_config(), tmp_path / "run", device=device)


DEDICATED_PRETERMINALS = ["model.rms_norm=true", "model.init_logit_std=2", "model.dedicated_preterminals=0.8"]


def test_a_run_with_own_tags(make_config, tmp_path: Path) -> None:
    """From the estimate of its memory to its last epoch."""
    settings = [*DEDICATED_PRETERMINALS, "training.epochs=3", "training.learning_rate=0.02"]
    result = train(make_config(*settings), tmp_path / "run")
    assert result.best.perplexity < len(load_run(tmp_path / "run").vocabulary)
