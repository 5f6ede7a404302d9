"""Compound models in training: one random state, from which a resumed run draws what an undisturbed one drew."""

import signal
from pathlib import Path

import pytest

from simplepcfg.inference.run import Run
from simplepcfg.runs.checkpoint import Checkpoint
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.training import Interrupted, train
from tiny_runs import short_trees
from toy_runs import SignalAt, differences
from word_frequencies import unigram_perplexity

SMALL = [
    "model.nonterminals=10",
    "model.preterminals=20",
    "model.embedding=16",
    "training.device=cpu",
    "training.threads=1",
    "training.patience=0",
]
COMPOUND = ["model.kind=sc-pcfg", "model.latent=3", "model.encoder=6"]


@pytest.fixture(scope="module")
def undisturbed(make_config, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = RunFolder(tmp_path_factory.mktemp("compound") / "whole")
    train(make_config(*COMPOUND), folder.path)
    return folder


@pytest.mark.parametrize("step", [1, 8])
def test_signal_then_resume_equals_undisturbed(make_config, undisturbed: RunFolder, tmp_path: Path, step: int) -> None:
    config, broken = make_config(*COMPOUND), RunFolder(tmp_path / "broken")
    with pytest.raises(Interrupted):
        train(config, broken.path, reporter=SignalAt(step, signal.SIGTERM))
    train(None, broken.path, resume=True)
    assert differences(undisturbed, broken) == []
    assert len(Checkpoint.load(undisturbed.checkpoint).random) > 0


@pytest.mark.parametrize(
    ("builtin", "sentences", "settings"),
    [
        ("sc-pcfg", 400, ["model.latent=4", "model.encoder=16", "model.init_logit_std=1"]),
        # Which side a child is on says nothing here, so it takes more symbols, and more time, to say something.
        pytest.param(
            "sn-pcfg-ie",
            1000,
            [
                "model.nonterminals=24",
                "model.preterminals=48",
                "model.init_logit_std=1",
                "training.epochs=8",
                "training.batch_size=8",
                "training.learning_rate=0.01",
            ],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_each_learns_more_than_word_frequencies(
    tmp_path: Path, builtin: str, sentences: int, settings: list[str]
) -> None:
    trees = short_trees(sentences + 50)
    text = [" ".join(tree.words) for tree in trees]
    schedule = ["training.epochs=3", "training.batch_size=16", "training.learning_rate=0.03", "data.vocabulary_size=0"]
    config = load_config(builtin, [*SMALL, *schedule, *settings], environment={})
    result = train(config, tmp_path / "run", train_text=text[:sentences], valid_text=text[sentences:])
    loaded = load_run(tmp_path / "run")
    run = Run(loaded.model, loaded.vocabulary, loaded.config)
    report = run.evaluate(trees[sentences:])
    assert report.perplexity is not None
    assert report.f1 is not None
    assert report.perplexity.perplexity == pytest.approx(result.best.perplexity, rel=1e-4)
    ids = [run.vocabulary.encode(item.tokens) for item in run.prepare(text)]
    assert report.perplexity.perplexity < unigram_perplexity(ids[:sentences], ids[sentences:], len(run.vocabulary))
