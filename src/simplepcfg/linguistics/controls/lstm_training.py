"""Training of an LSTM language model on the text of a run, for comparison."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor
from torch.nn import functional as F

from simplepcfg.data.batching import collate, training_batches
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.vocabulary import EOS, PAD_ID
from simplepcfg.errors import InputError, NumericalError
from simplepcfg.evaluation.perplexity import PerplexityReport, perplexity
from simplepcfg.linguistics.controls.lstm import (
    IGNORED,
    LSTMConfig,
    LSTMModel,
    LSTMNetwork,
    event_values,
    inputs_and_targets,
)
from simplepcfg.progress import stage
from simplepcfg.runs.corpus import Corpus
from simplepcfg.runs.device import reproducible
from simplepcfg.runs.tensor_files import host_copy

DEFAULT_EPOCHS = 10


@dataclass(frozen=True, kw_only=True)
class LSTMTraining:
    """Settings of an LSTM's training, which ends when `epochs` or `minutes` have passed, whichever comes first.

    The learning rate falls linearly to 0 over that time. None is no limit; without either there are 10 epochs.
    """

    epochs: int | None = None
    minutes: float | None = None
    batch_size: int = 64
    learning_rate: float = 0.002
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "minutes", "batch_size", "learning_rate", "clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} = {value}; it must be above 0")

    @property
    def most_epochs(self) -> int | None:
        """The number of epochs after which training ends; None if the minutes alone decide."""
        return DEFAULT_EPOCHS if self.epochs is None and self.minutes is None else self.epochs


@dataclass(frozen=True, slots=True)
class LSTMResult:
    """The model of the epoch with the best validation perplexity, and how long training took."""

    model: LSTMModel
    valid: PerplexityReport
    epochs: float  # passes over the text, the last of which may be a part
    seconds: float


def train_lstm(
    corpus: Corpus,
    preprocessing: Preprocessing,
    config: LSTMConfig | None = None,
    training: LSTMTraining | None = None,
    device: torch.device | str = "cpu",
    note: Callable[[str], None] = lambda text: None,
) -> LSTMResult:
    """Train an LSTM language model on the sentences of a corpus, each on its own, by Adam.

    `preprocessing` is that of the corpus; an `<eos>` at the end of its sentences is the model's own end. `note` gets a
    line after each epoch. On a CPU equal arguments give equal weights, unless `minutes` ends training. Raises
    NumericalError if the validation likelihood is not finite.
    """
    settings, place = training or LSTMTraining(), torch.device(device)
    with reproducible(place, threads=0):
        torch.manual_seed(settings.seed)
        network = LSTMNetwork(config or LSTMConfig(), len(corpus.vocabulary)).to(place)
        with stage("training the LSTM", 1.0) as advance:
            return _train(network, corpus, preprocessing, settings, note, advance)


def _train(
    network: LSTMNetwork,
    corpus: Corpus,
    preprocessing: Preprocessing,
    settings: LSTMTraining,
    note: Callable[[str], None],
    advance: Callable[[float], None],
) -> LSTMResult:
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    lengths = torch.from_numpy(corpus.train.lengths)
    ending = corpus.vocabulary.encode([EOS])[0] if EOS in corpus.vocabulary else None
    begun, most, ahead = time.monotonic(), settings.most_epochs, 1.0
    best: tuple[PerplexityReport, dict[str, Tensor]] | None = None
    for epoch in range(most) if most is not None else count():
        batches = training_batches(lengths, settings.batch_size, settings.seed, epoch)
        network.train()
        total, events, done = 0.0, 0, 0.0
        for number, indices in enumerate(batches):
            done = epoch + number / len(batches)
            left = _share_left(settings, done, time.monotonic() - begun)
            advance(ahead - left)
            ahead = left
            if left <= 0:
                break
            for group in optimizer.param_groups:
                group["lr"] = left * settings.learning_rate
            batch = collate(corpus.train, indices)
            loss, words = _step(network, optimizer, *without_ending(batch.words, batch.lengths, ending), settings.clip)
            total, events, done = total + loss, events + words, epoch + (number + 1) / len(batches)
        valid = validation_perplexity(network, corpus, preprocessing.eos, ending)
        if valid.impossible:
            raise NumericalError(f"the LSTM's validation likelihood is not finite after {done:.1f} epochs")
        seconds = time.monotonic() - begun
        note(
            f"epoch {epoch + 1}: train perplexity {_perplexity(total, events):.1f}, "
            f"valid {valid.perplexity:.2f}, {seconds:.0f} s"
        )
        if best is None or valid.rank > best[0].rank:
            best = valid, host_copy(network.state_dict())
        if _share_left(settings, done, seconds) <= 0:
            break
    assert best is not None  # There is at least one epoch.
    network.load_state_dict(best[1])
    model = LSTMModel(network, corpus.vocabulary, preprocessing, spelling=corpus.spelling)
    return LSTMResult(model, best[0], done, time.monotonic() - begun)


def _share_left(settings: LSTMTraining, epochs: float, seconds: float) -> float:
    """Return how much of the training is ahead, 1 to 0."""
    most = settings.most_epochs
    passed = [epochs / most] if most is not None else []
    passed += [seconds / (60 * settings.minutes)] if settings.minutes is not None else []
    return 1 - max(passed)


def _perplexity(total: float, events: int) -> float:
    return float(torch.tensor(total / max(events, 1)).exp())


def _step(
    network: LSTMNetwork, optimizer: torch.optim.Optimizer, words: Tensor, lengths: Tensor, clip: float
) -> tuple[float, int]:
    """Take a step on a batch; return its loss in nats, and its words, ends included.

    The loss is the mean over words. The gradient by the features is computed some rows of logits at a time, so that
    the logits of the whole batch are never held.
    """
    device = network.bias.device
    inputs, targets = inputs_and_targets(words.to(device), lengths)
    places = targets.flatten() != IGNORED
    wanted = targets.flatten()[places]
    features = network(inputs).flatten(0, 1)[places]
    leaf = features.detach().requires_grad_()
    optimizer.zero_grad(set_to_none=True)
    rows = network.rows_at_a_time(device)
    total = torch.zeros((), device=device)
    for some, ids in zip(leaf.split(rows), wanted.split(rows), strict=True):
        loss = F.cross_entropy(network.logits(some), ids, reduction="sum")
        (loss / len(wanted)).backward()
        total += loss.detach()
    assert leaf.grad is not None
    features.backward(leaf.grad)
    torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()
    return float(total), len(wanted)


def without_ending(words: Tensor, lengths: Tensor, ending: int | None) -> tuple[Tensor, Tensor]:
    """Return padded sentences [B, n] and lengths [B] without a last word whose id is `ending`."""
    if ending is None:
        return words, lengths
    last = words.gather(1, (lengths - 1)[:, None])[:, 0]
    kept = lengths - (last == ending).long()
    return words.masked_fill(torch.arange(words.shape[1]) >= kept[:, None], PAD_ID), kept


def validation_perplexity(
    network: LSTMNetwork, corpus: Corpus, eos: bool, ending: int | None = None
) -> PerplexityReport:
    """Return the perplexity on the validation text, over the tokens that a run with this `eos` counts."""
    sentences: Sequence[Sequence[int]] = [
        sentence[:-1] if ending is not None and sentence[-1] == ending else sentence for sentence in corpus.valid
    ]
    log_likelihoods = [-float(surprisals.sum()) for surprisals, _ in event_values(network, sentences)]
    return perplexity(log_likelihoods, corpus.valid.lengths.tolist(), eos)
