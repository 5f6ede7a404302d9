"""N-PCFG and C-PCFG as runs: they learn the built-in treebank, answer what they can and refuse the rest in one line."""

from pathlib import Path

import pytest
import torch

from simplepcfg.errors import InputError
from simplepcfg.inference.run import Run
from simplepcfg.models import build_model
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import load_run
from simplepcfg.training import train
from simplepcfg.training.memory_estimate import estimate
from simplepcfg.training.step.rule_count_check import rule_count_ratio
from tiny_runs import short_trees
from word_frequencies import unigram_perplexity

SMALL = [
    "model.nonterminals=8",
    "model.preterminals=20",
    "model.embedding=16",
    "model.init_logit_std=1",
    "data.vocabulary_size=0",
    "training.device=cpu",
    "training.threads=1",
    "training.epochs=3",
    "training.batch_size=16",
    "training.learning_rate=0.03",
]
SETTINGS = {"n-pcfg": [], "c-pcfg": ["model.latent=3", "model.encoder=16"]}


@pytest.mark.parametrize("kind", SETTINGS)
def test_learns_more_than_word_frequencies(tmp_path: Path, kind: str) -> None:
    trees = short_trees(280)
    text = [" ".join(tree.words) for tree in trees]
    config = load_config(kind, [*SMALL, *SETTINGS[kind]], environment={})
    train(config, tmp_path / "run", train_text=text[:240], valid_text=text[240:])
    loaded = load_run(tmp_path / "run")
    run = Run(loaded.model, loaded.vocabulary, loaded.config)
    report = run.evaluate(trees[240:])
    ids = [run.vocabulary.encode(item.tokens) for item in run.prepare(text)]
    assert report.perplexity is not None
    assert report.perplexity.perplexity < unigram_perplexity(ids[:240], ids[240:], len(run.vocabulary))
    parsed = run.parse(text[240:243], decode="viterbi")
    assert len(parsed) == 3
    best = run.k_best(text[240:243], 4)
    words = torch.tensor([ids[240]])
    with torch.no_grad():  # in float32, and so perhaps another tree of all but the same probability
        score = float(run.model.grammar(words).viterbi(words).log_probability)  # type: ignore[operator]
    assert best[0][0].log_probability == pytest.approx(score, rel=1e-5)
    drawn = run.sample_trees(text[240:243], 4)
    assert all(
        tree.log_probability <= trees[0].log_probability + 1e-4
        for trees, four in zip(best, drawn, strict=True)
        for tree in four
    )
    assert len(run.sample(2, max_length=8).trees) == 2
    for question in (
        lambda: run.surprisal(text[240:242]),
        lambda: run.complete("my old", samples=2),
        lambda: run.symbols(text[240:]),
    ):
        if kind == "n-pcfg":
            question()
        else:  # a compound model has a grammar for each sentence, and none without one
            with pytest.raises(InputError, match="kind c-pcfg makes its rules for each sentence"):
                question()


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_identity_holds(kind: str) -> None:
    config = load_config(kind, [*SMALL, *SETTINGS[kind]], environment={})
    torch.manual_seed(0)
    words = torch.randint(1, 30, (4, 9))
    ratio = rule_count_ratio(build_model(config.model, 30), words, torch.tensor([9, 7, 2, 1]))
    assert ratio == pytest.approx(1.0, abs=1e-5)


def test_the_large_size_fits_a_gpu() -> None:
    """(B, n, N, P) = (16, 40, 256, 512) within 10 GB, by the estimate; the precision changes nothing."""
    config = load_config("n-pcfg", ["model.nonterminals=256", "model.preterminals=512"], environment={})
    for precision in ("fp32", "bf16"):
        parts = estimate(config.model, 10_000, 16, 40, "cuda", precision)
        assert 3e9 < sum(part.size for part in parts) < 10e9
