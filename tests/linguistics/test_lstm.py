"""The LSTM control: its values against a loop over single words in float64, and its records."""

import math
from collections.abc import Sequence
from copy import deepcopy

import pytest
import torch

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.linguistics.controls import lstm
from simplepcfg.linguistics.controls.lstm import LSTMConfig, LSTMModel, LSTMNetwork, event_values

WORDS = ["a", "b", "c", "d", "e"]


def made(layers: int = 2, size: int = 7, dropout: float = 0.4) -> LSTMModel:
    torch.manual_seed(3)
    vocabulary = Vocabulary.from_sentences([WORDS])
    network = LSTMNetwork(LSTMConfig(size=size, layers=layers, dropout=dropout), len(vocabulary))
    torch.nn.init.normal_(network.embedding.weight)
    torch.nn.init.normal_(network.bias)
    return LSTMModel(network, vocabulary, Preprocessing())


@torch.no_grad()
def naive_values(network: LSTMNetwork, ids: Sequence[int]) -> tuple[list[float], list[float]]:
    """One word after the other, without batches or padding."""
    exact = deepcopy(network).double().eval()
    state, surprisals, entropies = None, [], []
    for before, word in zip([0, *ids], [*ids, 0], strict=True):
        features, state = exact.lstm(exact.embedding(torch.tensor([[before]])), state)
        probabilities = exact.logits(features[0, 0]).softmax(0)
        assert float(probabilities.sum()) == pytest.approx(1, abs=1e-12)
        surprisals.append(-math.log(probabilities[word]))
        entropies.append(float(-(probabilities * probabilities.log()).sum()))
    return surprisals, entropies


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("logits_at_a_time", [1, 20, 2**24])
def test_against_the_naive_form(layers: int, logits_at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lstm.LOGITS_AT_A_TIME, "cpu", logits_at_a_time)
    network = made(layers).network
    sentences = [[2, 3], [], [4, 1, 6, 2, 5, 5, 3], [2], [2, 3]]
    for ids, (surprisals, entropies) in zip(sentences, event_values(network, sentences, entropies=True), strict=True):
        expected = naive_values(network, ids)
        assert surprisals.tolist() == pytest.approx(expected[0], rel=1e-5)
        assert entropies.tolist() == pytest.approx(expected[1], rel=1e-5)


def test_records_sum_to_the_score() -> None:
    model = made()
    sentences = [["A", ",", "zebra", "b"], ["c"], ["."], []]
    records, scores = model.surprisal(sentences), model.score(sentences)
    assert [record.token for record in records[0]] == ["a", None, "<unk>", "b", "<end>"]
    assert [[record.word for record in table] for table in records[2:]] == [["."], []]  # nothing is left of them
    for table, score in zip(records[:2], scores, strict=False):
        assert -sum(record.surprisal or 0.0 for record in table) == pytest.approx(score, rel=1e-6)
    assert model.token_log_probabilities([["a", "zebra", "b"]]) == pytest.approx(scores[:1], rel=1e-6)


def test_equal_sentences_are_equal_to_the_last_bit() -> None:
    model = made()
    text = [["a", "b", "c"][: 1 + place % 3] for place in range(700)]
    scores = model.score(text)
    assert all(score == scores[place % 3] for place, score in enumerate(scores))


def test_what_is_refused() -> None:
    for settings in ({"size": 0}, {"layers": 0}, {"dropout": 1.0}, {"dropout": -0.1}):
        with pytest.raises(InputError):
            LSTMConfig(**settings)  # type: ignore[arg-type]
