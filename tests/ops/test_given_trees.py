"""Posteriors of symbols given trees, against the general algorithms with all other spans forbidden."""

import pytest
import torch
from torch import Tensor

from simplepcfg.grammars import SimpleGrammar


def random_grammar(nonterminals: int, preterminals: int, *batch: int, scale: float = 2.0) -> SimpleGrammar:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return (scale * torch.randn(*batch, *shape, generator=generator, dtype=torch.float64)).softmax(-1)

    symbols = nonterminals + preterminals
    return SimpleGrammar(draw(nonterminals), draw(nonterminals, symbols), draw(nonterminals, symbols))


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(
    ("n", "lengths", "nonterminals", "preterminals", "scale"),
    [(2, [2], 1, 1, 1), (6, [6, 1, 4, 2], 5, 7, 2), (9, [9, 9, 3], 3, 2, 8)],
)
def test_they_are_marginals_where_no_other_span_is_allowed(
    batched: bool, n: int, lengths: list[int], nonterminals: int, preterminals: int, scale: float
) -> None:
    batch = len(lengths)
    grammar = random_grammar(nonterminals, preterminals, *([batch] if batched else []), scale=scale)
    generator = torch.Generator().manual_seed(1)
    emissions = (scale * torch.randn(batch, n, preterminals, generator=generator, dtype=torch.float64)).log_softmax(-1)
    trees = grammar.decode(emissions, torch.tensor(lengths))
    nodes, words = grammar.symbols_given_trees(emissions, torch.tensor(lengths), trees=trees)
    only = torch.full((batch, n + 1, n + 1), -torch.inf, dtype=torch.float64)
    for b, spans in enumerate(trees):
        for i, j in [*spans, *((k, k + 1) for k in range(n))]:
            only[b, i, j] = 0.0
    spans = torch.tensor([(b, *span) for b, tree in enumerate(trees) for span in tree])
    expected = grammar.symbol_marginals(emissions, torch.tensor(lengths), spans=spans, span_bonus=only)
    torch.testing.assert_close(torch.cat(nodes), expected, rtol=1e-9, atol=1e-12)
    tags = grammar.tag_marginals(emissions, torch.tensor(lengths), span_bonus=only)
    for b, length in enumerate(lengths):
        assert words[b].shape == (length if length > 1 else 0, preterminals)
        if length > 1:
            torch.testing.assert_close(words[b], tags[b, :length], rtol=1e-9, atol=1e-12)


def test_a_tree_of_probability_0_has_zeros() -> None:
    grammar = random_grammar(2, 2)
    emissions = torch.full((1, 3, 2), -torch.inf, dtype=torch.float64)
    nodes, words = grammar.symbols_given_trees(emissions, trees=[[(0, 3), (1, 3)]])
    assert nodes[0].tolist() == [[0, 0], [0, 0]]
    assert words[0].tolist() == [[0, 0]] * 3
    assert [len(part) for part in grammar.symbols_given_trees(emissions[:, :1], trees=[[]])[0]] == [0]
