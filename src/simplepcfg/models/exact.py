"""Models with one grammar for all sentences, whose log p is exact."""

from torch import Tensor, nn

from simplepcfg.grammars import Grammar


class ExactModel(nn.Module):
    """Gives ``grammar``; what training minimises and what evaluation reports is its exact log p."""

    shares_rules = True

    def grammar(self, words: Tensor | None = None, lengths: Tensor | None = None) -> Grammar:
        """The grammar of the present parameters, the same for every sentence."""
        raise NotImplementedError

    def loss(self, words: Tensor, lengths: Tensor | None = None, *, span_bonus: Tensor | None = None) -> Tensor:
        """Negative log-likelihood of each sentence in nats: [B].

        With ``span_bonus`` [B, n + 1, n + 1] every tree counts for exp of what its spans add up to, times its
        probability.
        """
        return -self.grammar(words, lengths).log_partition(words, lengths, span_bonus=span_bonus)

    def log_likelihood(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        """log p of each sentence in nats, exactly: [B]."""
        return self.grammar(words, lengths).log_partition(words, lengths)
