"""Compound models: rules that depend on a latent vector z of each sentence, and an encoder for q(z | x)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simplepcfg.errors import InputError
from simplepcfg.grammars import Grammar
from simplepcfg.grammars.emissions import check_word_ids
from simplepcfg.models.settings import setting
from simplepcfg.ops.arguments import lengths_tensor
from simplepcfg.ops.shards import Shards


@dataclass(frozen=True, kw_only=True)
class CompoundConfig:
    """Sizes that every compound model has."""

    latent: int = setting(64, "Width of the sentence vector z.")
    encoder: int = setting(512, "Width of the encoder's word embeddings and LSTM, each way.")


@dataclass(frozen=True, slots=True)
class Posterior:
    """Approximate posterior q(z | x): a diagonal normal distribution for each sentence."""

    mean: Tensor  # [B, Z]
    log_variance: Tensor  # [B, Z]

    def reparameterise(self, noise: Tensor) -> Tensor:
        """Return z = mean + standard deviation · noise [B, Z], differentiable by mean and variance."""
        return self.mean + (0.5 * self.log_variance).exp() * noise

    def divergence(self) -> Tensor:
        """Return KL(q ‖ N(0, I)) in nats, [B]."""
        return 0.5 * (self.log_variance.exp() + self.mean.square() - 1 - self.log_variance).sum(-1)

    def log_ratio(self, noise: Tensor) -> Tensor:
        """Return log p(z) − log q(z | x), [B], the log importance weight of the z of this noise [B, Z]."""
        return 0.5 * (noise.square() + self.log_variance - self.reparameterise(noise).square()).sum(-1)


class SentenceEncoder(nn.Module):
    """Encoder of q(z | x): word embeddings, an LSTM in each direction, max pooling over positions, a linear layer.

    Padding does not change the result: the backward LSTM reads each sentence from its last word, and pooling is over
    the sentence alone. Sequences are not packed, so that the host never waits for a GPU.
    """

    def __init__(self, vocabulary_size: int, size: int, latent: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary_size, size)
        self.rightwards = nn.LSTM(size, size, batch_first=True)
        self.leftwards = nn.LSTM(size, size, batch_first=True)
        self.output = nn.Linear(2 * size, 2 * latent)

    def forward(self, words: Tensor, lengths: Tensor | None = None) -> Posterior:
        """Return q(z | x) of words [B, n], padded with 0 where lengths [B] are given."""
        n = words.shape[1]
        embedded = self.word_embeddings(words)  # [B, n, D]
        if lengths is None:
            outside, backwards = None, embedded.flip(1)
        else:
            ends = lengths_tensor(lengths, len(words)).to(words.device)[:, None]
            positions = torch.arange(n, device=words.device)
            outside = (positions >= ends)[..., None]  # [B, n, 1]
            order = torch.where(positions < ends, ends - 1 - positions, positions)  # [B, n]
            backwards = embedded.gather(1, order[..., None].expand_as(embedded))
        states = torch.cat((self.rightwards(embedded)[0], self.leftwards(backwards)[0]), -1)  # [B, n, 2D]
        if outside is not None:
            states = states.masked_fill(outside, -torch.inf)
        mean, log_variance = self.output(states.amax(1)).chunk(2, -1)
        return Posterior(mean, log_variance)


class CompoundModel(nn.Module):
    """Base of compound models: z ~ N(0, I), then a sentence from the grammar of z; trained by the ELBO.

    A subclass implements `grammar_of`; the encoder and the likelihoods are here. log p(x) has no closed form, and three
    quantities stand for it:

    - ``log_likelihood``: log p(x | μ) − KL at the posterior mean μ. It repeats exactly, whatever the batch, and is what
      the literature calls the model's perplexity; it is usually close to the ELBO but is not a bound.
    - ``elbo``: the expectation of log p(x | z) under q by sampling, minus KL. Its mean is a lower bound.
    - ``importance_log_likelihood``: the log of the mean of p(x | z) p(z) / q(z | x) over samples. Its mean is a lower
      bound, too; with one sample it equals the ELBO, and it approaches log p(x) with the number of samples.
    """

    shares_rules = False  # each sentence has a grammar of its own
    shards: Shards | None = None  # set by `shard_model`
    precision: str | None = None  # of matrix products in training; evaluation has float32 accuracy

    def __init__(self, config: CompoundConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.encoder = SentenceEncoder(vocabulary_size, config.encoder, config.latent)
        self.latent = config.latent
        self._part: tuple[int, Tensor] | None = None  # size of a batch that processes share, and this one's sentences

    def take_part(self, total: int, places: Sequence[int]) -> None:
        """Draw the noise of `loss` for a batch of `total` sentences, of which this process has those at `places`.

        Every process then draws what one that computes the whole batch would draw, and each sentence gets its own part.
        """
        own = next(self.parameters())
        rows = self._part[1] if self._part is not None else torch.zeros(0, dtype=torch.int64, device=own.device)
        if len(rows) < total:
            rows = torch.zeros(total, dtype=torch.int64, device=own.device)
        rows[: len(places)] = torch.tensor(places, dtype=torch.int64)  # in place, as a captured step reads it
        self._part = (total, rows)
        if not places:
            self._noise(own.new_empty(0, self.latent))

    def _noise(self, like: Tensor) -> Tensor:
        """Draw standard normal noise of the shape of `like`, [B, Z]."""
        if self._part is None or not self.training:
            return torch.randn_like(like)
        total, rows = self._part
        return like.new_empty(total, self.latent).normal_()[rows[: len(like)]]

    def grammar_of(self, z: Tensor) -> Grammar:
        """Return the grammars of sentence vectors [B, Z], as one batch of rules."""
        raise NotImplementedError

    def posterior(self, words: Tensor, lengths: Tensor | None = None) -> Posterior:
        """Return q(z | x) of each sentence of words [B, n]; on a CPU, raise InputError for an id that is no word's."""
        check_word_ids(words, lengths, 1, self.encoder.word_embeddings.num_embeddings)
        return self.encoder(words, lengths)

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> Grammar:
        """Return the grammars of the sentences' posterior means; raise InputError without sentences."""
        if words is None:
            raise InputError("a compound model has a grammar for each sentence and none for all; give sentences")
        return self.grammar_of(self.posterior(words, lengths).mean)

    @torch.no_grad()
    def random_grammar(self, generator: torch.Generator) -> Grammar:
        """Return the grammar of a z drawn from the prior, from which a sentence can be sampled."""
        own = next(self.parameters())
        z = torch.randn(1, self.latent, generator=generator, device=generator.device, dtype=torch.float32)
        return self.grammar_of(z.to(own.device, own.dtype)).of_sentence(0)

    def forward(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Return `loss`, so that hooks and wrappers such as DistributedDataParallel see what training calls."""
        return self.loss(words, lengths, span_bonus=span_bonus)

    def loss(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Return the negative ELBO of each sentence in nats, [B], with one z drawn from q by torch's random state.

        `span_bonus` [B, n + 1, n + 1] are log-weights of spans: the probability of a tree is multiplied by exp of the
        sum over its spans.
        """
        posterior = self.posterior(words, lengths)
        z = posterior.reparameterise(self._noise(posterior.mean))
        divergence = posterior.divergence()
        if self.shards is not None:  # every process computes it, and together they count its gradient once
            divergence = divergence.detach() + (divergence - divergence.detach()) / self.shards.size
        return divergence - self.grammar_of(z).log_partition(words, lengths, span_bonus=span_bonus)

    def log_likelihood(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return log p(x | posterior mean) − KL(q ‖ prior) in nats, [B]; the class says how it relates to log p(x)."""
        posterior = self.posterior(words, lengths)
        return self.grammar_of(posterior.mean).log_partition(words, lengths) - posterior.divergence()

    def elbo(self, words: Tensor, lengths: Tensor | None = None, *, samples: int, generator: torch.Generator) -> Tensor:
        """Return an unbiased estimate of the evidence lower bound of each sentence in nats, [B]."""
        posterior = self.posterior(words, lengths)
        log_likelihoods, _ = self._sample(posterior, words, lengths, samples, generator)
        return log_likelihoods.mean(0) - posterior.divergence()

    def importance_log_likelihood(
        self, words: Tensor, lengths: Tensor | None = None, *, samples: int, generator: torch.Generator
    ) -> Tensor:
        """Return log (1/K) Σ_k p(x | z_k) p(z_k) / q(z_k | x) in nats, [B], for K samples z_k from q."""
        posterior = self.posterior(words, lengths)
        log_likelihoods, log_ratios = self._sample(posterior, words, lengths, samples, generator)
        return (log_likelihoods + log_ratios).logsumexp(0) - math.log(samples)

    def _sample(
        self, posterior: Posterior, words: Tensor, lengths: Tensor | None, samples: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return log p(x | z) and log p(z) / q(z | x) of K samples, computed one after the other: [K, B] each."""
        if samples < 1:
            raise InputError(f"samples = {samples}; at least 1 is needed")
        drawn = []
        for _ in range(samples):
            mean = posterior.mean
            noise = torch.randn(mean.shape, generator=generator, device=generator.device, dtype=mean.dtype)
            noise = noise.to(mean.device)
            log_likelihood = self.grammar_of(posterior.reparameterise(noise)).log_partition(words, lengths)
            drawn.append((log_likelihood, posterior.log_ratio(noise)))
        log_likelihoods, ratios = zip(*drawn, strict=True)
        return torch.stack(log_likelihoods), torch.stack(ratios)
