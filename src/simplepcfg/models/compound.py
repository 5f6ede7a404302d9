"""Compound grammars: rules that depend on a vector z drawn for each sentence, and an encoder that guesses z."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from simplepcfg.errors import InputError
from simplepcfg.grammars import Grammar
from simplepcfg.grammars.emissions import check_word_ids
from simplepcfg.models.checks import check_sizes


@dataclass(frozen=True, kw_only=True)
class CompoundConfig:
    """Sizes that every compound model has."""

    latent: int = field(default=64, metadata={"description": "Width of the sentence vector z."})
    encoder: int = field(
        default=512, metadata={"description": "Width of the encoder's word embeddings and of its LSTM, each way."}
    )

    def check_compound(self) -> None:
        """InputError for a size that no model can have."""
        check_sizes(self, "latent", "encoder")


@dataclass(frozen=True, slots=True)
class Posterior:
    """q(z | x): a normal distribution with independent dimensions for each sentence."""

    mean: Tensor  # [B, Z]
    log_variance: Tensor  # [B, Z]

    def at(self, noise: Tensor) -> Tensor:
        """The z that standard normal noise [B, Z] stands for; differentiable by mean and variance."""
        return self.mean + (0.5 * self.log_variance).exp() * noise

    def divergence(self) -> Tensor:
        """KL(q ‖ N(0, I)) in nats: [B]."""
        return 0.5 * (self.log_variance.exp() + self.mean.square() - 1 - self.log_variance).sum(-1)

    def log_ratio(self, noise: Tensor) -> Tensor:
        """log p(z) − log q(z | x) at the z of this noise, the weight of a sample: [B]."""
        return 0.5 * (noise.square() + self.log_variance - self.at(noise).square()).sum(-1)


class SentenceEncoder(nn.Module):
    """Word embeddings, an LSTM each way, the maximum over the sentence's positions, a linear layer: q(z | x).

    Padding changes nothing: the backward LSTM reads each sentence from its own last word, and the maximum, which does
    not ask for an order, is taken over the sentence alone. Lengths are not packed, so nothing waits for a GPU.
    """

    def __init__(self, vocabulary_size: int, size: int, latent: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary_size, size)
        self.rightwards = nn.LSTM(size, size, batch_first=True)
        self.leftwards = nn.LSTM(size, size, batch_first=True)
        self.output = nn.Linear(2 * size, 2 * latent)

    def forward(self, words: Tensor, lengths: Tensor | None = None) -> Posterior:
        """``words`` [B, n], 0 where a sentence of ``lengths`` [B] is padded → q(z | x)."""
        n = words.shape[1]
        embedded = self.word_embeddings(words)  # [B, n, D]
        if lengths is None:
            outside, backwards = None, embedded.flip(1)
        else:
            ends = lengths.to(words.device)[:, None]
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
    """z ~ N(0, I), then a sentence from the grammar of z; trained by the evidence lower bound (ELBO).

    A model gives ``grammar_of(z)``; encoder, losses and scores are here. Three numbers stand for log p(x), which has
    no closed form:

    - ``log_likelihood``: log p(x | μ) − KL at the posterior mean μ. It repeats exactly, whatever the batch, and is what
      the literature calls the model's perplexity; it is usually close to the ELBO but is not a bound.
    - ``elbo``: the expectation of log p(x | z) under q by sampling, minus KL. Its mean is a lower bound.
    - ``importance_log_likelihood``: the log of an average of p(x | z) p(z) / q(z | x). Its mean is a lower bound, too,
      rises with the number of samples towards log p(x), and with one sample has the ELBO's.
    """

    shares_rules = False  # each sentence has a grammar of its own
    precision: str | None

    def __init__(self, config: CompoundConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.encoder = SentenceEncoder(vocabulary_size, config.encoder, config.latent)
        self.latent = config.latent
        self.precision = None

    def grammar_of(self, z: Tensor) -> Grammar:
        """The grammars of sentence vectors [B, Z], as one batch of rules."""
        raise NotImplementedError

    def posterior(self, words: Tensor, lengths: Tensor | None = None) -> Posterior:
        """q(z | x) of each sentence; on a CPU an id inside a sentence that is no word's is refused."""
        check_word_ids(words, lengths, 1, self.encoder.word_embeddings.num_embeddings)
        return self.encoder(words, lengths)

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> Grammar:
        """The grammar of each sentence's posterior mean; there is none without sentences."""
        if words is None:
            raise InputError("a compound model has a grammar for each sentence and none for all; give sentences")
        return self.grammar_of(self.posterior(words, lengths).mean)

    @torch.no_grad()
    def random_grammar(self, generator: torch.Generator) -> Grammar:
        """The grammar of a z from the prior: the first half of drawing a sentence."""
        z = torch.randn(1, self.latent, generator=generator, device=generator.device)
        own = next(self.parameters())
        return self.grammar_of(z.to(own.device, own.dtype)).of_sentence(0)

    def loss(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """−ELBO of each sentence in nats with one z drawn from q by torch's random state: [B].

        With ``span_bonus`` [B, n + 1, n + 1] every tree counts for exp of what its spans add up to, times its
        probability.
        """
        posterior = self.posterior(words, lengths)
        z = posterior.at(torch.randn_like(posterior.mean))
        return posterior.divergence() - self.grammar_of(z).log_partition(words, lengths, span_bonus=span_bonus)

    def log_likelihood(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """log p(x | posterior mean) − KL(q ‖ prior) in nats: [B]; see the class for what it is and is not."""
        posterior = self.posterior(words, lengths)
        return self.grammar_of(posterior.mean).log_partition(words, lengths) - posterior.divergence()

    def elbo(self, words: Tensor, lengths: Tensor | None = None, *, samples: int, generator: torch.Generator) -> Tensor:
        """An unbiased estimate of the evidence lower bound of each sentence in nats: [B]."""
        posterior = self.posterior(words, lengths)
        scores, _ = self._sampled(posterior, words, lengths, samples, generator)
        return scores.mean(0) - posterior.divergence()

    def importance_log_likelihood(
        self, words: Tensor, lengths: Tensor | None = None, *, samples: int, generator: torch.Generator
    ) -> Tensor:
        """log (1/K) Σ_k p(x | z_k) p(z_k) / q(z_k | x) in nats, z_k drawn from q: [B]; below log p(x) on average."""
        posterior = self.posterior(words, lengths)
        scores, log_ratios = self._sampled(posterior, words, lengths, samples, generator)
        return (scores + log_ratios).logsumexp(0) - math.log(samples)

    def _sampled(
        self, posterior: Posterior, words: Tensor, lengths: Tensor | None, samples: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """log p(x | z) and log p(z) / q(z | x) of each sample, which are computed one after the other: [K, B] each."""
        if samples < 1:
            raise InputError(f"samples = {samples}; at least 1 is needed")
        found = []
        for _ in range(samples):
            mean = posterior.mean
            noise = torch.randn(mean.shape, generator=generator, device=generator.device, dtype=mean.dtype)
            noise = noise.to(mean.device)
            score = self.grammar_of(posterior.at(noise)).log_partition(words, lengths)
            found.append((score, posterior.log_ratio(noise)))
        scores, ratios = zip(*found, strict=True)
        return torch.stack(scores), torch.stack(ratios)
