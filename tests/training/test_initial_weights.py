"""A run that begins with another's weights: the same grammar at first, however many symbols it is split into."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from simplepcfg.errors import InputError
from simplepcfg.models import build_model
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.training import train
from simplepcfg.training.initial_weights import initialise_from_run, split_symbols

WORDS, LENGTHS = torch.tensor([[1, 2, 3, 4], [2, 1, 3, 0]]), torch.tensor([4, 3])
SMALL = ("model.embedding=8", "training.epochs=1", "training.device=cpu", "training.threads=1")
CHAIN = ("model.states=6", "data.eos=true")
KINDS = {
    "hmm": CHAIN,
    "lhmm": (*CHAIN, "model.rank=4"),
    "rank-hmm": (*CHAIN, "model.rank=4"),
    "rank-pcfg": ("model.nonterminals=3", "model.preterminals=4", "model.rank=4"),
}


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("kind", ["sn-pcfg", *KINDS])
def test_without_noise_it_is_the_same_grammar(
    whole: RunFolder, text_file: Path, tmp_path: Path, times: int, kind: str
) -> None:
    """Every table with a row for each symbol, or for each nonterminal, is split."""
    if kind in KINDS:
        settings = [f"model.kind={kind}", *KINDS[kind], *SMALL, f'data.train="{text_file}"']
        train(load_config(overrides=settings, environment={}), tmp_path / "run")
    start = load_run(whole.path if kind == "sn-pcfg" else tmp_path / "run")
    sizes = vars(start.config.model)
    larger = {key: times * size for key, size in sizes.items() if key in ("nonterminals", "preterminals", "states")}
    model = build_model(type(start.config.model)(**sizes | larger), len(start.vocabulary)).eval()
    initialise_from_run(model, start.vocabulary, start.directory, noise=0.0)
    expected, found = (each.double().log_likelihood(WORDS, LENGTHS) for each in (start.model, model))
    torch.testing.assert_close(found, expected)


def test_how_other_weights_would_have_begun_does_not_matter(whole: RunFolder) -> None:
    start = load_run(whole.path)
    begun = replace(start.config.model, init_logit_std=2.0)
    model = build_model(begun, len(start.vocabulary)).eval()
    initialise_from_run(model, start.vocabulary, start.directory, noise=0.0)
    assert torch.equal(model.symbols, start.model.symbols)


def test_noise_sets_the_copies_apart() -> None:
    torch.manual_seed(0)
    table = torch.randn(5, 400)
    found = split_symbols(table, (2, 3), (6, 9), noise=0.2, name="run")
    apart = found - table.repeat_interleave(3, 0)
    assert float(apart.std() / table.std()) == pytest.approx(0.2, rel=0.1)
    assert torch.equal(split_symbols(table, (2, 3), (2, 3), noise=0.2, name="run"), table)


def test_a_run_grows(make_config, whole: RunFolder, tmp_path: Path) -> None:
    folder = tmp_path / "grown"
    settings = ["model.nonterminals=8", "model.preterminals=16", "training.learning_rate=1e-9", "training.epochs=1"]
    result = train(make_config(f"training.start_from={whole.path}", "training.start_noise=0", *settings), folder)
    assert result.best.perplexity == pytest.approx(load_run(whole.path).best["perplexity"], rel=1e-4)
    train(make_config(f"training.start_from={whole.path}", "training.start_noise=0", *settings), folder, resume=True)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.nonterminals=8", "its 4 and 8 symbols cannot become 8 and 8; multiply all by the same number"),
        ("model.nonterminals=2", "its 4 and 8 symbols cannot become 2 and 8"),
        ("model.embedding=16", r"its model\.embedding is 8, here 16; make them equal"),
        ("model.kind=rank-pcfg", r"its model\.kind is sn-pcfg, here rank-pcfg"),
        ("data.vocabulary_size=3", "its vocabulary is another"),
    ],
)
def test_what_does_not_fit_is_refused(
    make_config, whole: RunFolder, tmp_path: Path, setting: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train(make_config(f"training.start_from={whole.path}", setting), tmp_path / "run")
    assert not (tmp_path / "run" / "config.toml").exists()


def test_a_run_that_is_not_there_is_one_line(make_config, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run folder"):
        train(make_config("training.start_from=nowhere"), tmp_path / "run")
    with pytest.raises(InputError, match=r"training\.start_from = english: its vocabulary is another"):
        train(make_config("training.start_from=english"), tmp_path / "run")  # the one that comes with the package
