"""What every grammar must satisfy, written once: call ``check_grammar`` with a grammar and sentences of its words."""

import math

import torch
from torch import Tensor

from simplepcfg.grammars import SimpleGrammar


def check_grammar(grammar: SimpleGrammar, words: Tensor, lengths: Tensor) -> None:
    """Log-partition, marginals and trees are consistent with each other and do not depend on the batch."""
    log_z = grammar.log_partition(words, lengths)
    marginals = grammar.span_marginals(words, lengths)
    trees = grammar.decode(words, lengths)
    batch, n = words.shape
    assert log_z.shape == (batch,)
    assert marginals.shape == (batch, n + 1, n + 1)
    for b, length in enumerate(lengths.tolist()):
        assert len(trees[b]) == length - 1
        _check_tree(trees[b], length)
        if length == 1:
            assert log_z[b] == -math.inf
            continue
        torch.testing.assert_close(
            marginals[b].sum(), torch.tensor(length - 1.0, dtype=marginals.dtype), rtol=1e-4, atol=1e-4
        )
        assert ((marginals[b] >= 0) & (marginals[b] <= 1 + 1e-4)).all()
        assert not marginals[b, length + 1 :].any()
        assert not marginals[b, :, length + 1 :].any()
        alone = words[b : b + 1, :length]
        torch.testing.assert_close(grammar.log_partition(alone)[0], log_z[b], rtol=1e-5, atol=1e-5)
        assert grammar.decode(alone) == [trees[b]]
    _check_bonus(grammar, words, lengths)


def _check_tree(spans: list[tuple[int, int]], length: int) -> None:
    """A binary tree in preorder: n − 1 nested spans, the whole sentence first."""
    assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))
    assert not spans or spans[0] == (0, length)
    for i, j in spans:
        assert 0 <= i < j <= length
        assert j - i >= 2
        assert not any(i < a < j < b or a < i < b < j for a, b in spans)


def _check_bonus(grammar: SimpleGrammar, words: Tensor, lengths: Tensor) -> None:
    """A bonus of zero changes nothing; a forbidden span is in no tree."""
    batch, n = words.shape
    bonus = torch.zeros(batch, n + 1, n + 1)
    plain = grammar.log_partition(words, lengths)
    torch.testing.assert_close(grammar.log_partition(words, lengths, span_bonus=bonus), plain, rtol=1e-6, atol=1e-6)
    bonus[:, 0, 2] = -math.inf
    marginals = grammar.span_marginals(words, lengths, span_bonus=bonus)
    assert (marginals[:, 0, 2] == 0).all()
    assert (grammar.log_partition(words, lengths, span_bonus=bonus) <= plain + 1e-5).all()
