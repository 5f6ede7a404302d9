"""Looks at a model in training: what they tell, that they change nothing, and where they are shown."""

import io
import math
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from rich.console import Console

from counted_words import vocabulary_of
from simplepcfg.errors import InputError
from simplepcfg.models import build_model
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import LiveReporter, Reporter, make_reporter, train
from simplepcfg.training.reporting.progress import EpochReport, StepReport
from simplepcfg.training.reporting.snapshot import Snapshot, SnapshotTaker
from toy_runs import differences

WORDS = ["the", "dog", "sees", "a", "cat", "man", "bird", "likes"]


class Watching(Reporter):
    """Keeps what it is told."""

    wants_snapshots = True

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self.steps: list[StepReport] = []
        self.epochs: list[EpochReport] = []

    def snapshot(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def step(self, report: StepReport) -> None:
        self.steps.append(report)

    def epoch(self, report: EpochReport) -> None:
        self.epochs.append(report)


@pytest.mark.parametrize("config", ["sn-pcfg-small", "n-pcfg", "rank-pcfg-4096", "tn-pcfg-500", "sc-pcfg", "c-pcfg"])
def test_every_kind_of_grammar(config: str) -> None:
    sizes = ["model.nonterminals=4", "model.preterminals=8", "model.embedding=8"]
    if config in ("rank-pcfg-4096", "tn-pcfg-500"):
        sizes.append("model.rank=4")
    vocabulary = vocabulary_of([WORDS], None, 1)
    torch.manual_seed(0)
    model = build_model(load_config(config, sizes, environment={}).model, len(vocabulary)).train()
    sentences = [vocabulary.encode(WORDS[:n]) for n in (2, 5, 8, 7)]
    found = SnapshotTaker(sentences, vocabulary).take(model, torch.device("cpu"))
    assert model.training
    assert found is not None
    assert found.identity == pytest.approx(1, abs=1e-4)
    assert found.tree is not None
    assert list(found.tree.words) == WORDS
    assert len(found.tree.spans) == 7
    if config in ("sn-pcfg-small", "n-pcfg", "sc-pcfg", "c-pcfg"):
        assert found.symbols == 4
        assert found.symbols_in_use is not None
        assert 1 <= found.symbols_in_use <= 4 + 1e-6


def test_a_hidden_markov_model_has_nothing_to_show() -> None:
    vocabulary = vocabulary_of([WORDS], None, 1)
    config = load_config("hmm-4096", ["model.states=4", "model.embedding=8"], environment={})
    model = build_model(config.model, len(vocabulary))
    assert SnapshotTaker([vocabulary.encode(WORDS)], vocabulary).take(model, torch.device("cpu")) is None
    assert SnapshotTaker([], vocabulary).take(model, torch.device("cpu")) is None


def test_looking_changes_nothing(make_config, whole: RunFolder, tmp_path: Path, monkeypatch) -> None:
    """Bit for bit the run that nobody looked at."""
    monkeypatch.setattr("simplepcfg.training.loop.SNAPSHOT_SECONDS", 0.0)
    watching = Watching()
    train(make_config(), tmp_path / "run", reporter=watching)
    assert differences(whole, RunFolder(tmp_path / "run")) == []
    logged = sum(report.logged for report in watching.steps)
    assert len(watching.snapshots) == logged + len(watching.epochs)
    assert all(found.identity == pytest.approx(1, abs=1e-4) for found in watching.snapshots)
    assert all(math.isfinite(report.gradient_norm) for report in watching.steps)


@pytest.mark.gpu
@pytest.mark.parametrize("captured", [0, 96])
def test_looking_changes_nothing_on_a_gpu(make_config, tmp_path: Path, monkeypatch, captured: int) -> None:
    """Beside steps that are launched one by one, and beside captured ones."""
    monkeypatch.setattr("simplepcfg.training.loop.SNAPSHOT_SECONDS", 0.0)
    config = make_config("training.device=cuda", f"training.captured_shapes={captured}", "training.ema_decay=0.9")
    train(config, tmp_path / "alone")
    watching = Watching()
    train(config, tmp_path / "watched", reporter=watching)
    assert differences(RunFolder(tmp_path / "alone"), RunFolder(tmp_path / "watched")) == []
    assert all(found.identity == pytest.approx(1, abs=0.02) for found in watching.snapshots)


def test_nobody_looks_within_epochs_unless_asked(make_config, tmp_path: Path, monkeypatch) -> None:
    """One snapshot an epoch is taken, for the record."""
    monkeypatch.setattr("simplepcfg.training.loop.SNAPSHOT_SECONDS", 0.0)
    taken: list[None] = []
    monkeypatch.setattr(SnapshotTaker, "take", lambda *_: taken.append(None))
    train(make_config("training.epochs=2"), tmp_path / "run", reporter=Reporter())
    assert len(taken) == 2


def test_the_identity_is_told(make_config, tmp_path: Path) -> None:
    watching = Watching()
    train(make_config("training.epochs=1", "training.check_identity=true"), tmp_path / "run", reporter=watching)
    assert [report.rule_count_ratio is not None for report in watching.steps] == [r.logged for r in watching.steps]


@pytest.mark.parametrize(("width", "height"), [(150, 40), (80, 24)])
def test_live_display(make_config, tmp_path: Path, monkeypatch, width: int, height: int) -> None:
    monkeypatch.setattr("simplepcfg.training.reporting.live_display.REDRAW_SECONDS", 0.0)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=width, height=height, highlight=False)
    train(make_config(), tmp_path / "run", reporter=LiveReporter(console))
    text = screen.getvalue()
    for words in ("training perplexity", "gradient norm", "span marginals / (n − 1) 1.0", "nonterminals in use about"):
        assert words in text
    assert any(0x2800 < ord(character) < 0x2900 for character in text)
    assert "sample parse" in text
    assert ("└─" in text) == (width > 100)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    epochs = re.findall(r"epoch \d/\d  train.*(?:\n  .*)*?elapsed", plain)
    assert len(epochs) == 3
    assert all(len(line) <= width for line in "\n".join(epochs).splitlines())
    assert all("elapsed" in found and "perplexity" in found for found in epochs)  # no word is broken


def test_the_plot_leaves_the_steep_beginning_out(monkeypatch) -> None:
    monkeypatch.setattr("simplepcfg.training.reporting.live_display.REDRAW_SECONDS", 0.0)
    screen = io.StringIO()
    reporter = LiveReporter(Console(file=screen, force_terminal=True, width=80, height=24, highlight=False))
    values = [9000.0, 3000.0, *(150.0 - k for k in range(30))]
    for step, value in enumerate(values, start=1):
        reporter.step(StepReport(1, 1, step, len(values), step, 1.0, value, 1.0, 1.0, True))
    reporter.close()
    last = screen.getvalue().split("┤")
    assert "9,000" not in last[-6]
    assert "148.0" in last[-7][-12:]


def test_every_number_of_the_epoch_line_has_a_name(make_config, tmp_path: Path) -> None:
    watching = Watching()
    train(make_config(), tmp_path / "run", reporter=watching)
    for report in watching.epochs:
        line = report.describe()
        assert line.endswith(" elapsed")
        assert "train perplexity" in line
        assert "validation perplexity" in line
    assert "gradient norm" in watching.steps[0].describe()


def test_tensorboard(make_config, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reporter = make_reporter(True, ["tensorboard"], tmp_path / "run")
    train(make_config(), tmp_path / "run", reporter=reporter)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    tags = events.Tags()
    expected = {"training/perplexity", "training/gradient_norm", "validation/perplexity", "symbols/nonterminals_in_use"}
    assert {*expected, "health/span_marginals_over_n_minus_1"} <= set(tags["scalars"])
    assert len(events.Scalars("validation/perplexity")) == 3
    (event, *_) = events.Tensors("sample_parse/text_summary")
    assert event.tensor_proto.string_val[0].startswith(b"(")


def test_wandb(make_config, tmp_path: Path, monkeypatch) -> None:
    logged: list[dict] = []
    session = SimpleNamespace(log=lambda values, step: logged.append(values), finish=lambda: logged.append({"end": 1}))
    fake = ModuleType("wandb")
    fake.init = lambda **given: logged.append(given) or session  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    reporter = make_reporter(True, ["wandb"], tmp_path / "run", {"seed": 3})
    assert logged == []
    train(make_config(), tmp_path / "run", reporter=reporter)
    assert logged[0] == {"project": "simplepcfg", "name": "run", "config": {"seed": 3}}
    assert logged[-1] == {"end": 1}
    names = {name for values in logged[1:] for name in values}
    assert {"training/perplexity", "validation/perplexity", "sample_parse"} <= names


def test_refusals(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("simplepcfg.training.reporting.event_logs.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install '\.\[log\]' in a checkout"):
        make_reporter(True, ["tensorboard"], tmp_path)
    with pytest.raises(InputError, match="pip install wandb"):
        make_reporter(True, ["wandb"], tmp_path)
    with pytest.raises(InputError, match="take one of tensorboard, wandb"):
        make_reporter(True, ["paper"], tmp_path)
    with pytest.raises(InputError, match="folder"):
        make_reporter(True, ["tensorboard"])
