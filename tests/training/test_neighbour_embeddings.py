"""Word embeddings that begin turned towards their words' neighbours."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from model_checks import tiny_model_of
from simplepcfg.errors import InputError
from simplepcfg.models import KINDS, build_model
from simplepcfg.runs.corpus import prepare_corpus
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.training import train
from simplepcfg.training.initial_weights import (
    largest_singular_vectors,
    neighbour_vectors,
    set_neighbour_embeddings,
)
from step_checks import tiny_model

# Ids 1 and 2 stand between the same words, 3 and 4 likewise; 7 never occurs.
SENTENCES = [[5, 1, 3], [5, 2, 4], [5, 1, 4], [5, 2, 3], [6, 3], [6, 4], [5, 1, 3, 6]]
WORDS = 8


def vectors(width: int = 6, sentences: list[list[int]] = SENTENCES) -> Tensor:
    return neighbour_vectors(sentences, WORDS, width, torch.Generator().manual_seed(0))


def naive_associations(sentences: list[list[int]], vocabulary_size: int) -> Tensor:
    """[words, 2 · vocabulary_size], by counting one neighbour after the other."""
    counts = torch.zeros(vocabulary_size, 2, vocabulary_size, dtype=torch.float64)
    for sentence in sentences:
        padded = [0, *sentence, 0]
        for position, word in enumerate(sentence, 1):
            counts[word, 0, padded[position - 1]] += 1
            counts[word, 1, padded[position + 1]] += 1
    given_word = counts / counts.sum(2, keepdim=True)
    flat = counts.sum(0) ** 0.75
    ratio = given_word / (flat / flat.sum(1, keepdim=True))
    return ratio.log().nan_to_num(nan=0.0, neginf=0.0).clamp(min=0)[1:].flatten(1)


def test_cosines_are_those_of_the_associations() -> None:
    """With room for all singular vectors nothing is lost."""
    associations = naive_associations(SENTENCES, WORDS)
    rows = torch.nn.functional.normalize(associations)
    found = vectors(WORDS - 1).double()
    torch.testing.assert_close(found @ found.T, rows @ rows.T, rtol=0, atol=1e-5)


def test_words_with_the_same_neighbours_lie_together() -> None:
    found = vectors()
    cosines = found @ found.T
    assert cosines[0, 1] > 0.8  # words 1 and 2
    assert cosines[0, 1] > cosines[0, 4] + 0.5
    assert cosines[2, 3] > cosines[2, 0] + 0.5


def test_lengths_are_one_and_nothing_is_known_of_absent_words() -> None:
    lengths = vectors().norm(dim=1)
    torch.testing.assert_close(lengths, torch.tensor([1.0] * 6 + [0.0]))


@pytest.mark.parametrize("width", [1, 3, 7, 40])
def test_any_width(width: int) -> None:
    assert vectors(width).shape == (WORDS - 1, width)
    assert torch.equal(vectors(width), vectors(width))


def test_the_sketch_finds_the_largest_singular_vectors() -> None:
    torch.manual_seed(0)
    spectrum = 4.0 ** -torch.arange(30.0)
    left, right = (torch.linalg.qr(torch.randn(size, 30)).Q for size in (63, 131))
    matrix = left * spectrum @ right.T
    found, values = largest_singular_vectors(matrix.to_sparse(), 10, torch.Generator().manual_seed(1))
    order = values.argsort(descending=True)[:5]
    torch.testing.assert_close(values[order], spectrum[:5], rtol=1e-4, atol=0)
    cosines = (found[:, order] * left[:, :5]).sum(0).abs()
    torch.testing.assert_close(cosines, torch.ones(5), rtol=0, atol=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_directions_turn_and_lengths_stay(share: float) -> None:
    model = build_model(tiny_model().config, WORDS)
    before = model.word_embeddings.detach().clone()
    set_neighbour_embeddings(model, SENTENCES, share, seed=0)
    after = model.word_embeddings.detach()
    torch.testing.assert_close(after.norm(dim=1), before.norm(dim=1))
    assert torch.equal(after[-1], before[-1])  # of which nothing is known
    if share == 0:
        torch.testing.assert_close(after, before)
    if share == 1:
        expected = vectors(model.config.embedding)[:-1]
        torch.testing.assert_close(torch.nn.functional.normalize(after[:-1]), expected)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_model_can_begin_so(kind: str) -> None:
    model = tiny_model_of(KINDS[kind](), WORDS)
    if not hasattr(model, "word_embeddings"):
        with pytest.raises(InputError, match="word_neighbours"):
            set_neighbour_embeddings(model, SENTENCES, 0.7, seed=0)
        return
    width = model.config.embedding
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    set_neighbour_embeddings(model, SENTENCES, 0.7, seed=0)
    for name, weight in model.named_parameters():
        if name == "word_embeddings":
            assert not torch.isclose(weight[:-1, :width], before[name][:-1, :width]).all(1).any()
            assert torch.equal(weight[:, width:], before[name][:, width:])  # a bias
        else:
            assert torch.equal(weight, before[name])


def test_a_run_begins_so(make_config, tmp_path: Path) -> None:
    """A rate of nearly nothing leaves the start as it was."""
    settings = ("training.learning_rate=1e-9", "training.epochs=1")
    turned, drawn = (make_config(*settings, f"training.word_neighbours={share}") for share in (0.7, 0.0))
    runs = [load_run(train(config, tmp_path / name).directory) for config, name in ((turned, "a"), (drawn, "b"))]
    model = runs[1].model
    set_neighbour_embeddings(model, prepare_corpus(turned.data, turned.seed).train, 0.7, turned.seed)
    torch.testing.assert_close(runs[0].model.state_dict(), model.state_dict(), rtol=0, atol=1e-6)


def test_weights_of_another_run_come_first(make_config, whole: RunFolder, tmp_path: Path) -> None:
    settings = [f"training.start_from={whole.path}", "training.learning_rate=1e-9", "training.epochs=1"]
    train(make_config(*settings, "training.word_neighbours=1"), tmp_path / "run")
    found, start = load_run(tmp_path / "run").model, load_run(whole.path).model
    torch.testing.assert_close(found.word_embeddings, start.word_embeddings, rtol=0, atol=1e-5)


def test_a_model_without_word_embeddings_says_so() -> None:
    class Bare(torch.nn.Module):
        config = SimpleNamespace(kind="free-pcfg")

    with pytest.raises(InputError, match=r"word_neighbours = 0\.5: a model of kind free-pcfg has no word embeddings"):
        set_neighbour_embeddings(Bare(), [[1, 2]], 0.5, 0)
