"""Base class of models with one grammar for all sentences, whose log-likelihood is exact."""

from torch import Tensor, nn

from simplepcfg.grammars import Grammar


class ExactModel(nn.Module):
    """Base of models with one grammar; training and evaluation use its exact log-likelihood.

    A subclass implements `grammar`.
    """

    shares_rules = True

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> Grammar:
        """Return the grammar of the present parameters, the same for every sentence."""
        raise NotImplementedError

    def forward(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Return `loss`, so that hooks and wrappers such as DistributedDataParallel see what training calls."""
        return self.loss(words, lengths, span_bonus=span_bonus)

    def loss(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Return the negative log-likelihood, [B], of each sentence of words [B, n] in nats.

        `span_bonus` [B, n + 1, n + 1] are log-weights of spans: the probability of a tree is multiplied by exp of the
        sum over its spans.
        """
        return -self.grammar(words, lengths).log_partition(words, lengths, span_bonus=span_bonus)

    def log_likelihood(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the log-likelihood, [B], of each sentence of words [B, n] in nats."""
        return self.grammar(words, lengths).log_partition(words, lengths)
