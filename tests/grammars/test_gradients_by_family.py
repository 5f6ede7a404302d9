"""Which answers carry gradients, family by family: as docs/questions.md says."""

import pytest
import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, DenseGrammar, HiddenMarkovModel, RankGrammar, SimpleGrammar

N, P, RANKS, VOCABULARY = 3, 4, 5, 9
WORDS, LENGTHS = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 0]]), torch.tensor([4, 3])


def rules(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).softmax(-1).requires_grad_()


EMISSIONS = DenseEmissions(rules(P, VOCABULARY).detach().log())
GRAMMARS = {
    "simple": SimpleGrammar(rules(N), rules(N, N + P), rules(N, N + P), EMISSIONS),
    "dense": DenseGrammar(rules(N), rules(N, (N + P) ** 2).view(N, N + P, N + P), EMISSIONS),
    "rank": RankGrammar(rules(N), rules(N, RANKS), rules(RANKS, N + P), rules(RANKS, N + P), EMISSIONS),
    "hidden Markov": HiddenMarkovModel(rules(P), rules(P, P), EMISSIONS),
}


@pytest.mark.parametrize("family", GRAMMARS)
@pytest.mark.parametrize(
    ("question", "with_gradients"),
    [
        ("log_partition", ["simple", "dense", "rank", "hidden Markov"]),
        ("span_marginals", ["simple", "dense", "rank"]),
        ("tag_marginals", ["simple", "rank", "hidden Markov"]),
        ("symbol_marginals", []),
        ("next_word_entropy", []),
    ],
)
def test_answers_carry_gradients_where_the_guide_says_so(family: str, question: str, with_gradients: list[str]) -> None:
    try:
        found = getattr(GRAMMARS[family], question)(WORDS, LENGTHS)
    except InputError:
        assert family not in with_gradients
    else:
        assert found.requires_grad == (family in with_gradients)


@pytest.mark.parametrize("family", GRAMMARS)
@pytest.mark.parametrize("question", ["log_partition", "tag_marginals", "surprisal"])
def test_every_family_refuses_what_is_no_word(family: str, question: str) -> None:
    for wrong in (-1, VOCABULARY):
        words = WORDS.clone()
        words[1, 1] = wrong
        with pytest.raises(InputError, match=rf"words\[1, 1\] = {wrong} is no word"):
            getattr(GRAMMARS[family], question)(words, LENGTHS)
