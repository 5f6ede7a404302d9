"""SC-PCFG: one grammar a sentence, each of them proper; and that it learns."""

import pytest
import torch

from contract import check_grammar
from finite_differences import check_derivatives
from model_checks import check_gradients, train_on
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, SimpleGrammar
from simplepcfg.models.simple_cpcfg import SimpleCPCFG, SimpleCPCFGConfig

WORDS = torch.tensor([[1, 5, 11, 2, 7], [3, 4, 6, 0, 0], [9, 8, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 2])
WHICH = ["paper", "released"]


def model(which: str = "paper", **sizes: int) -> SimpleCPCFG:
    torch.manual_seed(0)
    given = {"nonterminals": 5, "preterminals": 9, "embedding": 16, "latent": 3, "encoder": 7, **sizes}
    return SimpleCPCFG(SimpleCPCFGConfig(**given, networks=which), 12)  # type: ignore[arg-type]


@pytest.mark.parametrize("which", WHICH)
def test_rows_sum_to_one_for_every_sentence(which: str) -> None:
    grammar = model(which).grammar(WORDS, LENGTHS)
    assert grammar.left.shape == grammar.right.shape == (3, 5, 14)
    for rules in (grammar.root, grammar.left, grammar.right):
        torch.testing.assert_close(rules.sum(-1), torch.ones(rules.shape[:-1]))
    every_word = torch.arange(1, 12).expand(3, -1)
    logs = grammar.emissions.log_probabilities(every_word)
    torch.testing.assert_close(logs.logsumexp(1), torch.zeros(3, 9))
    torch.testing.assert_close(grammar.emissions.of_words(0, 12)[:, 1:], logs)
    tags = torch.tensor([8, 2])
    torch.testing.assert_close(grammar.emissions.of_preterminals(tags)[..., 1:], logs[..., tags].transpose(1, 2))
    assert torch.isneginf(grammar.emissions.of_words(0, 12)[:, 0]).all()


@pytest.mark.parametrize("wrong", [0, -1, 12])
def test_what_is_no_word_is_refused_before_it_is_encoded(wrong: int) -> None:
    words = WORDS.clone()
    words[1, 1] = wrong
    for ask in (model().grammar, model().log_likelihood, model().loss):
        with pytest.raises(InputError, match=rf"words\[1, 1\] = {wrong} is .*; ids are 1 to 11"):
            ask(words, LENGTHS)


@pytest.mark.parametrize("which", WHICH)
def test_only_what_should_depends_on_z(which: str) -> None:
    one, other = (model(which).grammar_of(torch.full((1, 3), value)) for value in (-1.0, 1.0))
    assert not torch.equal(one.left, other.left)
    assert not torch.equal(one.right, other.right)
    words = torch.tensor([[1, 2]])
    assert not torch.equal(one.emissions.log_probabilities(words), other.emissions.log_probabilities(words))
    assert torch.equal(one.root, other.root)


@pytest.mark.parametrize("which", WHICH)
def test_the_papers_formulas(which: str) -> None:
    """Appendix A, and what the authors' program has, written down once more in float64."""
    network = model(which).double().eval()
    torch.manual_seed(1)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    z = torch.randn(2, 3, dtype=torch.float64)
    weights = {name: value.detach() for name, value in network.state_dict().items()}
    w, start = weights["symbols"], weights["start"][0]

    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def blocks(name: str, first: int, y: torch.Tensor) -> torch.Tensor:
        for k in (first, first + 1):
            y = y + linear(f"{name}.{k}.outer", linear(f"{name}.{k}.inner", y).relu()).relu()
        return y

    def beside(rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.cat([rows, one.expand(len(rows), -1)], 1) for one in z])

    parents = w[:5] + linear("parent.linear", beside(w[:5])).relu()
    left, right = (w + linear(f"{side}_child.linear", w).relu() for side in ("left", "right"))
    words = blocks("emission.rest", 0, linear("emission.linear", beside(w[5:]))) @ weights["word_embeddings"].T
    root = w[:5] @ start
    if which == "paper":
        root = weights["root_embeddings"] @ blocks("root", 1, linear("root.0", start))
    else:
        words = words + weights["word_bias"]
    grammar = network.grammar_of(z)
    torch.testing.assert_close(grammar.root, root.softmax(0).expand(2, -1))
    torch.testing.assert_close(grammar.left, (parents @ left.T).softmax(-1))
    torch.testing.assert_close(grammar.right, (parents @ right.T).softmax(-1))
    torch.testing.assert_close(grammar.emissions.of_words(1, 12), words.log_softmax(-1).transpose(1, 2))


@pytest.mark.parametrize("which", WHICH)
def test_gradients_by_finite_differences(which: str) -> None:
    network = model(which, nonterminals=2, preterminals=3, embedding=3, latent=2, encoder=2).double()
    torch.manual_seed(1)
    for name, parameter in network.named_parameters():
        if not name.startswith("encoder"):
            torch.nn.init.normal_(parameter, std=0.5)
    names = [name for name, _ in network.named_parameters() if not name.startswith("encoder")]
    values = [dict(network.named_parameters())[name] for name in names]
    z = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    def log_partition(z: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        changed = {f"model.{name}": value for name, value in zip(names, given, strict=True)}
        return torch.func.functional_call(OfVectors(network), changed, (z,))

    check_derivatives(log_partition, [z, *values])


class OfVectors(torch.nn.Module):
    """log p of the sentences given their vectors, as a module, which ``functional_call`` wants."""

    def __init__(self, model: SimpleCPCFG) -> None:
        super().__init__()
        self.model = model

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.model.grammar_of(z).log_partition(WORDS, LENGTHS)


@pytest.mark.parametrize("which", WHICH)
def test_contract(which: str) -> None:
    network = model(which)
    with torch.no_grad():
        for words, length in zip(WORDS, LENGTHS.tolist(), strict=True):
            alone = words[None, :length]
            check_grammar(network.grammar(alone), alone, torch.tensor([length]))
        check_trees(network.grammar(WORDS, LENGTHS), WORDS, LENGTHS)


def check_trees(grammar: SimpleGrammar, words: torch.Tensor, lengths: torch.Tensor) -> None:
    """Single trees know which sentence's rules are whose."""
    best = grammar.viterbi(words, lengths)
    assert (best.log_probability <= grammar.log_partition(words, lengths) + 1e-5).all()
    for b, length in enumerate(lengths.tolist()):
        one = SimpleGrammar(grammar.root[b], grammar.left[b], grammar.right[b], DenseEmissions(all_words(grammar)[b]))
        alone = one.viterbi(words[b : b + 1, :length])
        torch.testing.assert_close(alone.log_probability[0], best.log_probability[b])


def all_words(grammar: SimpleGrammar) -> torch.Tensor:
    """[B, P, V]."""
    return grammar.emissions.of_words(0, 12).transpose(1, 2)


def test_a_batch_of_grammars_is_for_its_own_sentences() -> None:
    with pytest.raises(InputError, match="1 sentences for the emissions of 3"):
        model().grammar(WORDS, LENGTHS).log_partition(WORDS[:1])


@pytest.mark.parametrize("which", WHICH)
def test_a_sentence_alone_has_the_score_it_has_in_a_batch(which: str) -> None:
    network = model(which).eval()
    with torch.no_grad():
        together = network.log_likelihood(WORDS, LENGTHS)
        alone = [network.log_likelihood(WORDS[b : b + 1, :n]) for b, n in enumerate(LENGTHS.tolist())]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_parameter_gets_a_gradient(which: str, precision: str) -> None:
    network = model(which)
    network.precision = precision
    network.loss(WORDS, LENGTHS).sum().backward()
    check_gradients(network)


def test_training_lowers_the_loss() -> None:
    """With the networks of the paper's appendix; tests/training trains the released ones."""
    network = model("paper", nonterminals=16, preterminals=24, embedding=32)
    words = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 1]])
    before = float(network.loss(words).mean().detach())
    train_on(network, words)
    with torch.no_grad():
        assert -float(network.log_likelihood(words).mean()) < before / 2


@pytest.mark.parametrize("key", ["nonterminals", "preterminals", "embedding", "latent", "encoder"])
def test_impossible_sizes_are_named(key: str) -> None:
    with pytest.raises(InputError, match=f"model.{key} = -1"):
        SimpleCPCFGConfig(**{key: -1})
    with pytest.raises(InputError, match=r"model\.networks = 'deep'; take released or paper"):
        SimpleCPCFGConfig(networks="deep")  # type: ignore[arg-type]
