"""Grammars and twins that the tests of prefix probabilities share."""

from typing import NamedTuple

import torch
from torch import Tensor

from naive_prefix import naive_prefix
from random_grammars import Case, random_case, rules_and_sentences
from simplepcfg.ops.arguments import Sentences, SimpleRules, check_arguments
from simplepcfg.ops.logs import log_share
from simplepcfg.ops.prefix import prefix_states


class NextWord(NamedTuple):
    """What follows each sentence of a batch, taken as a prefix."""

    log_prefix: Tensor  # [B]
    tags: Tensor  # [B, P]
    log_end: Tensor  # [B]


def next_word(rules: SimpleRules, sentences: Sentences, backend: str = "auto") -> NextWord:
    """Predict the preterminal of the next word, or the end, after each sentence, as grammars do."""
    states, at = prefix_states(rules, sentences, backend=backend), sentences.last_posts()
    log_prefix, log_sentence = states.log_prefix[at], states.log_sentence[at]
    return NextWord(log_prefix, states.tags_at(*at), log_share(log_sentence, log_prefix))


BACKENDS = ["torch", "triton"]
Tensors = tuple[Tensor, Tensor, Tensor, Tensor]


def plain(case: Case, dtype: torch.dtype = torch.float64) -> Tensors:
    """Without gradients."""
    log_emissions, root, left, right = (tensor.detach().to(dtype) for tensor in case.tensors())
    return log_emissions, root, left, right


def naive(tensors: Tensors, lengths: Tensor | None = None) -> Tensor:
    return naive_prefix(check_arguments(*rules_and_sentences(*tensors, lengths=lengths)))


def short_grammar(seed: int = 0, vocabulary: int = 2) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """root, left, right, log_emit [P, V] of a grammar whose sentences are nearly all short."""
    case = random_case(1, 1, 2, 2, seed=seed)
    _, root, left, right = plain(case)
    # Nonterminal children are rare, so that long sentences are.
    left, right = (
        torch.cat([rules[:, :2] * 0.02, rules[:, 2:]], 1) / (rules[:, :2].sum(1) * 0.02 + rules[:, 2:].sum(1))[:, None]
        for rules in (left, right)
    )
    generator = torch.Generator().manual_seed(seed)
    log_emit = torch.randn(2, vocabulary, generator=generator, dtype=torch.float64).log_softmax(-1)
    return root, left, right, log_emit


def with_every_word(log_emissions: Tensor, log_emit: Tensor) -> Tensor:
    """[n, P] → [V, n + 1, P]: the words, and each word of the vocabulary after them."""
    vocabulary = log_emit.shape[1]
    return torch.cat([log_emissions.expand(vocabulary, -1, -1), log_emit.T[:, None]], 1)
