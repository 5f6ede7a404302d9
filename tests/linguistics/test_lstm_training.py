"""Training of the LSTM control, and its file."""

import time
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.errors import InputError
from simplepcfg.linguistics.controls import lstm, lstm_training
from simplepcfg.linguistics.controls.files import is_lstm_file, load_lstm, save_lstm
from simplepcfg.linguistics.controls.lstm import LSTMConfig, LSTMModel, LSTMNetwork, inputs_and_targets
from simplepcfg.linguistics.controls.lstm_training import LSTMTraining, train_lstm, without_ending
from simplepcfg.runs.checksums import DamagedFileError
from simplepcfg.runs.config.schema import DataConfig
from simplepcfg.runs.corpus import Corpus, prepare_corpus
from tiny_runs import make_tiny_run, tiny_sentences

SIZES = LSTMConfig(size=16, layers=2, dropout=0.1)


def corpus_of(count: int = 300, **data: object) -> Corpus:
    return prepare_corpus(DataConfig(**data), seed=0, train=tiny_sentences(count))  # type: ignore[arg-type]


def trained(corpus: Corpus, **settings: float) -> lstm_training.LSTMResult:
    choices = LSTMTraining(**{"epochs": 2, "batch_size": 16, **settings})  # type: ignore[arg-type]
    return train_lstm(corpus, Preprocessing(), SIZES, choices)


def weights(model: LSTMModel) -> dict[str, Tensor]:
    return dict(model.network.state_dict())


def test_it_learns_what_follows_what() -> None:
    letters = "abcdefgh"
    text = [" ".join((letters * 2)[start : start + length]) for start in range(8) for length in range(2, 7)] * 4
    corpus = prepare_corpus(DataConfig(), seed=0, train=text)
    found = train_lstm(corpus, Preprocessing(), SIZES, LSTMTraining(epochs=8, batch_size=8, learning_rate=0.03))
    assert found.valid.perplexity < 3  # word frequencies alone leave a choice of nine


def test_equal_runs_are_equal() -> None:
    corpus, notes = corpus_of(), list[str]()
    first = train_lstm(corpus, Preprocessing(), SIZES, LSTMTraining(epochs=2, batch_size=16), note=notes.append)
    assert (len(notes), first.epochs) == (2, 2)
    torch.manual_seed(123)  # What the caller has drawn does not count, and is not changed.
    before = torch.random.get_rng_state()
    second = trained(corpus)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(tensor, weights(second.model)[name]) for name, tensor in weights(first.model).items())
    assert trained(corpus, seed=1).valid.perplexity != first.valid.perplexity


def test_the_best_epoch_is_kept() -> None:
    corpus = corpus_of(60)
    notes: list[str] = []
    found = train_lstm(
        corpus, Preprocessing(), SIZES, LSTMTraining(epochs=12, batch_size=4, learning_rate=0.1), note=notes.append
    )
    shown = [float(note.split("valid ")[1].split(",")[0]) for note in notes]
    assert found.valid.perplexity == pytest.approx(min(shown), abs=0.01)
    again = lstm_training.validation_perplexity(found.model.network, corpus, eos=False)
    assert again.perplexity == pytest.approx(found.valid.perplexity, rel=1e-6)


def test_minutes_end_training_in_the_middle_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(10**6))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    found = trained(corpus_of(300), epochs=None, minutes=0.5)  # type: ignore[arg-type]
    assert 1 < found.epochs < 2
    assert found.seconds < 40
    assert LSTMTraining().most_epochs == 10
    assert LSTMTraining(minutes=1).most_epochs is None


def test_perplexity_counts_the_tokens_that_a_run_counts() -> None:
    for eos in (False, True):
        corpus = corpus_of(eos=eos)
        found = train_lstm(corpus, Preprocessing(eos=eos), SIZES, LSTMTraining(epochs=1))
        assert found.valid.tokens == sum(len(sentence) + (not eos) for sentence in corpus.valid)
        assert found.model.preprocessing.eos is False  # the end is its own


def test_without_ending() -> None:
    words, lengths = torch.tensor([[5, 2, 9], [9, 9, 0], [9, 0, 0]]), torch.tensor([3, 2, 1])
    shorter, kept = without_ending(words, lengths, 9)
    assert (shorter.tolist(), kept.tolist()) == ([[5, 2, 0], [9, 0, 0], [0, 0, 0]], [2, 1, 0])
    assert without_ending(words, lengths, None)[0] is words


def test_a_step_in_parts_has_the_gradient_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = LSTMNetwork(LSTMConfig(size=5, layers=2, dropout=0.0), 9).double()
    words, lengths = torch.tensor([[3, 1, 4], [8, 5, 0], [2, 0, 0]]), torch.tensor([3, 2, 1])
    inputs, targets = inputs_and_targets(words, lengths)
    loss = F.cross_entropy(network.logits(network(inputs)).flatten(0, 1), targets.flatten(), reduction="mean")
    expected = torch.autograd.grad(loss, list(network.parameters()))
    monkeypatch.setitem(lstm.LOGITS_AT_A_TIME, "cpu", 2 * 9)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0)
    total, events = lstm_training._step(network, optimizer, words, lengths, clip=1e9)
    assert (events, total) == (9, pytest.approx(9 * float(loss.detach()), rel=1e-6))
    for parameter, gradient in zip(network.parameters(), expected, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradient, rtol=1e-9, atol=1e-12)


def test_files(tmp_path: Path) -> None:
    model, path = trained(corpus_of()).model, tmp_path / "model.safetensors"
    save_lstm(model, path)
    assert is_lstm_file(path)
    loaded = load_lstm(path, "cpu")
    sentences = [sentence.split() for sentence in tiny_sentences(20, seed=8)]
    assert loaded.score(sentences) == model.score(sentences)
    assert (loaded.vocabulary, loaded.preprocessing) == (model.vocabulary, model.preprocessing)
    assert loaded.name == str(path)
    content = path.read_bytes()
    for damaged in (content[:-5], content[:-40] + bytes(4) + content[-36:], content.replace(b'"layers', b'"lawers')):
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError) if is_lstm_file(path) else pytest.raises(InputError):
            load_lstm(path, "cpu")


def test_other_files_are_none(tmp_path: Path) -> None:
    run = make_tiny_run(tmp_path / "run")
    text = tmp_path / "text.txt"
    text.write_text("no model\n")
    for path in (run / "model.safetensors", run, text, tmp_path / "nowhere"):
        assert not is_lstm_file(path)
        with pytest.raises(InputError):
            load_lstm(path, "cpu")


def test_what_is_refused() -> None:
    for settings in ({"epochs": 0}, {"minutes": 0.0}, {"batch_size": 0}, {"learning_rate": -1.0}, {"clip": 0.0}):
        with pytest.raises(InputError):
            LSTMTraining(**settings)  # type: ignore[arg-type]
