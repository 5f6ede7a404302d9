"""A word-level LSTM language model as a control beside grammars: it reads a sentence from left to right.

Id 0, which is padding elsewhere, stands for the two ends of a sentence: it is the first input and the last target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simplepcfg.data.batching import Batch, collate, evaluation_batches
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.spelling import SpellingModel
from simplepcfg.data.vocabulary import PAD_ID, Vocabulary
from simplepcfg.errors import InputError, counted
from simplepcfg.linguistics.word_model import Words, WordSurprisal, with_spellings, word_records
from simplepcfg.progress import stage

IGNORED = -100  # the target of a place after the end
INITIAL_RANGE = 0.1  # embeddings begin uniform in ± this
# Logits of this many words of text are computed at a time, so that a large vocabulary needs no more memory.
LOGITS_AT_A_TIME = {"cpu": 2**24, "cuda": 2**27}


@dataclass(frozen=True, kw_only=True)
class LSTMConfig:
    """Sizes of an LSTM language model; embeddings are as wide as hidden states, since input and output share them."""

    size: int = 512
    layers: int = 2
    dropout: float = 0.3  # of embeddings, between layers, and before the output

    def __post_init__(self) -> None:
        if self.size < 1 or self.layers < 1:
            raise InputError(f"LSTM of size {self.size} with {self.layers} layers; both must be 1 or more")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout = {self.dropout}; it must be at least 0 and below 1")


class LSTMNetwork(nn.Module):
    """Embedding, LSTM and an output layer that shares the embedding's weights."""

    def __init__(self, config: LSTMConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(vocabulary_size, config.size)
        nn.init.uniform_(self.embedding.weight, -INITIAL_RANGE, INITIAL_RANGE)
        between = config.dropout if config.layers > 1 else 0.0
        self.lstm = nn.LSTM(config.size, config.size, config.layers, dropout=between, batch_first=True)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the features [B, n, size] from which the word after each input [B, n] is predicted."""
        embedded = F.dropout(self.embedding(inputs), self.config.dropout, self.training)
        return F.dropout(self.lstm(embedded)[0], self.config.dropout, self.training)

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits [..., vocabulary] of the next word, those of the end at id 0."""
        return F.linear(features, self.embedding.weight, self.bias)

    def rows_at_a_time(self, device: torch.device) -> int:
        """Return for how many places the logits are computed together."""
        return max(1, LOGITS_AT_A_TIME["cuda" if device.type == "cuda" else "cpu"] // len(self.bias))


class LSTMModel:
    """A trained network with its vocabulary and preprocessing; answers `score` and `surprisal` as a run does."""

    def __init__(
        self,
        network: LSTMNetwork,
        vocabulary: Vocabulary,
        preprocessing: Preprocessing,
        name: str = "lstm",
        spelling: SpellingModel | None = None,
    ) -> None:
        self.network = network.eval()
        self.vocabulary = vocabulary
        self.preprocessing = preprocessing.model_copy(update={"eos": False})  # the model has its own end
        self.name = name
        self.spelling = spelling

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.network.bias.device

    def score(self, sentences: Sequence[Words]) -> list[float]:
        """log p (nats) of each sentence, its end and the spellings of unknown words included."""
        tokens = [self.preprocessing.apply(words).tokens for words in sentences]
        return with_spellings(self, tokens, self.token_log_probabilities(tokens))

    def token_log_probabilities(self, sentences: Sequence[Words]) -> list[float]:
        """log p (nats) of each sentence of prepared tokens, its end included, and without spellings."""
        events = event_values(self.network, [self.vocabulary.encode(tokens) for tokens in sentences])
        return [-float(surprisals.sum()) for surprisals, _ in events]

    def surprisal(
        self, sentences: Sequence[Words], *, ends: bool = True, entropies: bool = False
    ) -> list[list[WordSurprisal]]:
        """Return a record for every word and, with `ends`, one for the end of each sentence; see ``Run.surprisal``."""
        prepared = [self.preprocessing.apply(words) for words in sentences]
        events = event_values(self.network, [self.vocabulary.encode(item.tokens) for item in prepared], entropies)
        return [
            word_records(
                words,
                item,
                self.vocabulary,
                list(zip_longest(surprisals.tolist(), expected.tolist())),
                self.spelling,
            )
            for words, item, (surprisals, expected) in zip(sentences, prepared, events, strict=True)
        ]


def inputs_and_targets(words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return inputs and targets, both [B, n + 1], of padded sentences [B, n]: a start before, an end after each."""
    places = torch.arange(words.shape[1] + 1, device=words.device)
    inputs = F.pad(words, (1, 0), value=PAD_ID)
    after_end = places > lengths.to(words.device)[:, None]
    return inputs, F.pad(words, (0, 1), value=PAD_ID).masked_fill(after_end, IGNORED)


@torch.no_grad()
def event_values(
    network: LSTMNetwork, sentences: Sequence[Sequence[int]], entropies: bool = False
) -> list[tuple[Tensor, Tensor]]:
    """Return the surprisal (nats) of each word and of the end, [n + 1] each in float64, for every encoded sentence.

    With `entropies`, beside them the entropy of what could have stood there; otherwise that tensor is empty. Equal
    sentences are computed once, so that their values are equal to the last bit.
    """
    network.eval()
    distinct = {ids: place for place, ids in enumerate(dict.fromkeys(map(tuple, sentences)))}
    listed = list(distinct)
    values: list[tuple[Tensor, Tensor]] = [(torch.zeros(0), torch.zeros(0))] * len(listed)
    with stage(counted(len(listed), "sentence"), len(listed)) as advance:
        for indices in evaluation_batches([len(ids) + 1 for ids in listed]):
            for place, answer in zip(indices, _batch_values(network, collate(listed, indices), entropies), strict=True):
                values[place] = answer
            advance(len(indices))
    return [values[distinct[tuple(ids)]] for ids in sentences]


def _batch_values(network: LSTMNetwork, batch: Batch, entropies: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what `event_values` returns, for the sentences of a batch."""
    device = network.bias.device
    inputs, targets = inputs_and_targets(batch.words.to(device), batch.lengths)
    places = targets.flatten() != IGNORED
    features, wanted = network(inputs).flatten(0, 1)[places], targets.flatten()[places]
    rows_at_a_time = network.rows_at_a_time(device)
    parts = [
        _surprisals(network.logits(rows), ids, entropies)
        for rows, ids in zip(features.split(rows_at_a_time), wanted.split(rows_at_a_time), strict=True)
    ]
    counts = (batch.lengths + 1).tolist()
    columns = [torch.cat(column).double().cpu().split(counts) for column in zip(*parts, strict=True)]
    for place in range(len(counts)):
        yield columns[0][place], columns[1][place] if entropies else torch.zeros(0)


def _surprisals(logits: Tensor, targets: Tensor, entropies: bool) -> tuple[Tensor, ...]:
    log_probabilities = logits.log_softmax(-1)
    surprisals = -log_probabilities.gather(-1, targets[:, None])[:, 0]
    if not entropies:
        return (surprisals,)
    return surprisals, -(log_probabilities.exp() * log_probabilities).sum(-1)
