"""N-PCFG and C-PCFG: proper distributions, the contract, and that they learn."""

import pytest
import torch
from torch import nn

from contract import check_grammar
from model_checks import check_gradients
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseGrammar
from simplepcfg.models import CPCFG, NPCFG, CPCFGConfig, NPCFGConfig

SIZES = {"nonterminals": 5, "preterminals": 9, "embedding": 16}
COMPOUND = {"latent": 3, "encoder": 7}
KINDS = ["n-pcfg", "c-pcfg"]
WORDS = torch.tensor([[1, 5, 11, 2, 7], [3, 4, 6, 0, 0], [9, 8, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 2])


def model(kind: str, **sizes: int) -> nn.Module:
    torch.manual_seed(0)
    if kind == "n-pcfg":
        return NPCFG(NPCFGConfig(**{**SIZES, **sizes}), 12)  # type: ignore[arg-type]
    return CPCFG(CPCFGConfig(**{**SIZES, **COMPOUND, **sizes}), 12)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_sum_to_one(kind: str) -> None:
    grammar = model(kind).grammar(WORDS, LENGTHS)
    lead = () if kind == "n-pcfg" else (3,)
    assert grammar.rules.shape == (*lead, 5, 14, 14)
    torch.testing.assert_close(grammar.rules.sum((-1, -2)), torch.ones(*lead, 5))
    torch.testing.assert_close(grammar.root.sum(-1), torch.ones(lead))
    every_word = torch.arange(1, 12).expand(3, -1)
    torch.testing.assert_close(grammar.emissions.log_probabilities(every_word).logsumexp(1), torch.zeros(3, 9))


@pytest.mark.parametrize("kind", KINDS)
def test_contract(kind: str) -> None:
    network = model(kind, init_logit_std=2)
    with torch.no_grad():
        for words, length in zip(WORDS, LENGTHS.tolist(), strict=True):
            alone = words[None, :length]
            check_grammar(network.grammar(alone), alone, torch.tensor([length]))


def test_every_rule_depends_on_z() -> None:
    one, other = (model("c-pcfg").grammar_of(torch.full((1, 3), value)) for value in (-1.0, 1.0))
    words = torch.tensor([[1, 2]])
    assert not torch.equal(one.root, other.root)
    assert not torch.equal(one.rules, other.rules)
    assert not torch.equal(one.emissions.log_probabilities(words), other.emissions.log_probabilities(words))


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_alone_has_the_score_it_has_in_a_batch(kind: str) -> None:
    network = model(kind).eval()
    with torch.no_grad():
        together = network.log_likelihood(WORDS, LENGTHS)
        alone = [network.log_likelihood(WORDS[b : b + 1, :n]) for b, n in enumerate(LENGTHS.tolist())]
        grammar = network.grammar(WORDS, LENGTHS)
    torch.testing.assert_close(together, torch.cat(alone))
    assert isinstance(grammar, DenseGrammar)
    assert (grammar.viterbi(WORDS, LENGTHS).log_probability < grammar.log_partition(WORDS, LENGTHS)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_parameter_gets_a_gradient(kind: str, precision: str) -> None:
    network = model(kind)
    network.precision = precision
    network.loss(WORDS, LENGTHS).sum().backward()
    check_gradients(network)


@pytest.mark.parametrize("key", ["nonterminals", "preterminals", "embedding"])
def test_impossible_sizes_are_named(key: str) -> None:
    for config in (NPCFGConfig, CPCFGConfig):
        with pytest.raises(InputError, match=f"model.{key} = -1"):
            config(**{key: -1})
    with pytest.raises(InputError, match=r"model\.latent = 0"):
        CPCFGConfig(latent=0)
