"""SN-PCFG: distributions that sum to one, the contract, and that it learns."""

from typing import Any

import pytest
import torch
from torch import Tensor

from contract import check_grammar
from finite_differences import check_derivatives
from model_checks import check_gradients, train_on
from simplepcfg.errors import InputError
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig


def model(**sizes: Any) -> SimpleNPCFG:
    torch.manual_seed(0)
    return SimpleNPCFG(SimpleNPCFGConfig(**{"nonterminals": 5, "preterminals": 9, "embedding": 16, **sizes}), 12)


def test_rows_sum_to_one() -> None:
    grammar = model().grammar()
    for rules in (grammar.root, grammar.left, grammar.right):
        torch.testing.assert_close(rules.sum(-1), torch.ones(rules.shape[:-1]))
    every_word = torch.arange(1, 12)[None]
    torch.testing.assert_close(grammar.emissions.log_probabilities(every_word).logsumexp(1), torch.zeros(1, 9))


def test_contract() -> None:
    words = torch.tensor([[1, 5, 11, 2, 7], [3, 4, 0, 0, 0], [9, 0, 0, 0, 0]])
    with torch.no_grad():
        check_grammar(model().grammar(), words, torch.tensor([5, 2, 1]))


def test_probabilities_of_all_strings_of_two_words_sum_to_the_mass_of_two_leaves() -> None:
    grammar = model().grammar()
    words = torch.cartesian_prod(torch.arange(1, 12), torch.arange(1, 12))
    both_preterminal = grammar.left[:, 5:].sum(-1) * grammar.right[:, 5:].sum(-1)
    torch.testing.assert_close(grammar.log_partition(words).exp().sum(), grammar.root @ both_preterminal)


NETWORKS = ["paper", "released"]


def linear(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def residual_network(weights: dict[str, Tensor], name: str, blocks: int, x: Tensor) -> Tensor:
    y = linear(weights, f"{name}.0", x)
    for k in range(1, blocks + 1):
        y = y + linear(weights, f"{name}.{k}.outer", linear(weights, f"{name}.{k}.inner", y).relu()).relu()
    return y


@pytest.mark.parametrize("networks", NETWORKS)
def test_the_papers_formulas(networks: str) -> None:
    """Appendix A, and what the authors' program has, written down once more in float64."""
    network = model(networks=networks).double().eval()
    torch.manual_seed(1)
    for parameter in network.parameters():  # biases begin at 0: let them count
        torch.nn.init.normal_(parameter, std=0.4)
    weights = {name: value.detach() for name, value in network.state_dict().items()}
    w, start, words = weights["symbols"], weights["start"][0], weights["word_embeddings"]

    def layer(name: str, x: Tensor) -> Tensor:
        return x + linear(weights, f"{name}.linear", x).relu()

    parents = layer("parent", w[:5])
    if networks == "paper":
        root = weights["root_embeddings"] @ residual_network(weights, "root", 2, start)
        tags = residual_network(weights, "emission", 2, w[5:])
    else:
        root = w[:5] @ start
        tags = w[5:] + residual_network(weights, "emission", 3, w[5:])
    grammar = network.grammar()
    torch.testing.assert_close(grammar.root, root.softmax(0))
    torch.testing.assert_close(grammar.left, (parents @ layer("left_child", w).T).softmax(1))
    torch.testing.assert_close(grammar.right, (parents @ layer("right_child", w).T).softmax(1))
    torch.testing.assert_close(grammar.emissions.of_words(1, 12), (tags @ words.T).log_softmax(1).T)


@pytest.mark.parametrize("networks", NETWORKS)
def test_gradients_by_finite_differences(networks: str) -> None:
    network = model(nonterminals=2, preterminals=3, embedding=2, networks=networks).double()
    torch.manual_seed(1)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    words, lengths = torch.tensor([[1, 2, 3], [5, 6, 0]]), torch.tensor([3, 2])
    names, values = zip(*network.named_parameters(), strict=True)

    def loss(*given: Tensor) -> Tensor:
        return torch.func.functional_call(Loss(network), {f"model.{n}": v for n, v in zip(names, given, strict=True)},
                                          (words, lengths))  # fmt: skip

    check_derivatives(loss, values)


class Loss(torch.nn.Module):
    """A model's loss as a module, which ``functional_call`` wants."""

    def __init__(self, model: SimpleNPCFG) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        return self.model.loss(words, lengths)


def test_how_weights_begin() -> None:
    """Xavier normal and biases of 0 in the paper; Xavier uniform and PyTorch's biases in the authors' program."""
    paper, released = (model(embedding=64, networks=networks) for networks in NETWORKS)
    for network, tails in ((paper, True), (released, False)):
        weight = network.emission[0].weight
        assert float(weight.detach().std()) == pytest.approx((2 / 128) ** 0.5, rel=0.1)
        assert (float(weight.detach().abs().max()) > (6 / 128) ** 0.5) == tails
        assert float(network.symbols.detach().std()) == pytest.approx((2 / (14 + 64)) ** 0.5, rel=0.1)
    assert not paper.parent.linear.bias.any()
    bias = released.parent.linear.bias.detach()
    assert 0.1 < float(bias.abs().max()) <= 64**-0.5


@pytest.mark.parametrize("networks", NETWORKS)
def test_every_parameter_gets_a_gradient(networks: str) -> None:
    network = model(networks=networks)
    network.loss(torch.tensor([[1, 2, 3, 4], [5, 6, 7, 0]]), torch.tensor([4, 3])).sum().backward()
    check_gradients(network)


def test_training_lowers_the_loss() -> None:
    network = model(nonterminals=16, preterminals=24, embedding=32)
    words = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 1]])
    before = float(network.loss(words).mean().detach())
    train_on(network, words)
    assert float(network.loss(words).mean().detach()) < before / 2


@pytest.mark.parametrize("key", ["nonterminals", "preterminals", "embedding"])
def test_impossible_sizes_are_named(key: str) -> None:
    with pytest.raises(InputError, match=f"model.{key} = -1"):
        SimpleNPCFGConfig(**{key: -1})


def test_layout_of_the_weights() -> None:
    """Checkpoints are read by these names."""

    def network(name: str, blocks: int) -> list[str]:
        layers = [f"{k}.{layer}" for k in range(1, blocks + 1) for layer in ("inner", "outer")]
        return [f"{name}.{layer}.{kind}" for layer in ("0", *layers) for kind in ("weight", "bias")]

    rules = [f"{name}.linear.{kind}" for name in ("left_child", "parent", "right_child") for kind in ("weight", "bias")]
    paper = ["symbols", "start", "word_embeddings", "root_embeddings", *network("root", 2), *rules]
    assert list(model(networks="paper").state_dict()) == [*paper, *network("emission", 2)]
    released = ["symbols", "start", "word_embeddings", *rules, *network("emission", 3)]
    assert list(model().state_dict()) == released


def test_training_and_evaluation_give_one_grammar() -> None:
    network = model()
    words, lengths = torch.tensor([[1, 5, 11, 2, 7], [3, 4, 0, 0, 0]]), torch.tensor([5, 2])
    trained = network.train().grammar().log_partition(words, lengths)
    torch.testing.assert_close(network.eval().grammar().log_partition(words, lengths), trained)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("tf32", 1e-5), ("bf16", 0.1)])
def test_precisions_of_training(precision: str, tolerance: float) -> None:
    """On a CPU tf32 changes nothing, and bf16 rounds the operands of products where the processor can."""
    network = model(nonterminals=16, preterminals=24, embedding=32)
    words = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 0]])
    found = []
    for choice in (None, precision):
        network.precision = choice
        network.zero_grad()
        loss = network.loss(words, torch.tensor([6, 5]))
        loss.sum().backward()
        found.append((loss.detach(), torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])))
    (exact, exact_grad), (loss, grad) = found
    torch.testing.assert_close(loss, exact, rtol=tolerance / 10, atol=0.0)
    assert float((grad - exact_grad).norm()) <= tolerance * float(exact_grad.norm())
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"


@pytest.mark.parametrize(("networks", "rms_norm"), [("paper", False), ("paper", True), ("released", True)])
def test_scores_begin_as_far_apart_as_asked(networks: str, rms_norm: bool) -> None:
    """Twice the deviation for twice the number, in rules, root and emissions; and about the number itself."""

    def deviations(scores: float) -> list[float]:
        torch.manual_seed(0)
        sizes = {"nonterminals": 96, "preterminals": 192, "embedding": 64}
        network = model(**sizes, networks=networks, init_logit_std=scores, rms_norm=rms_norm)
        grammar = network.grammar().detached()
        tables = (grammar.left, grammar.right, grammar.root, grammar.emissions.of_words(1, 12).T.exp())
        return [float(table.log().std(-1).mean()) for table in tables]

    one, two = deviations(1.0), deviations(2.0)
    assert two == pytest.approx([2 * deviation for deviation in one], rel=0.02)
    assert all(0.7 < deviation < 2 for deviation in one)


def test_words_may_begin_farther_apart_than_rules() -> None:
    sizes = {"nonterminals": 96, "preterminals": 192, "embedding": 64}
    network = model(**sizes, rms_norm=True, init_logit_std=0.1, init_emission_logit_std=2.0)
    grammar = network.grammar().detached()
    assert float(grammar.left.log().std(-1).mean()) == pytest.approx(0.1, rel=0.3)
    assert float(grammar.emissions.of_words(1, 12).std(0).mean()) == pytest.approx(2.0, rel=0.3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"init_emission_logit_std": -1.0}, "model.init_emission_logit_std = -1.0; it must be finite and at least 0"),
        (
            {"init_emission_logit_std": 2.0, "rms_norm": False},
            "model.init_emission_logit_std = 2.0 .* set model.rms_norm=true",
        ),
        ({"init_emission_logit_std": 2.0, "init_logit_std": 0.0}, "model.init_logit_std=0.1"),
    ],
)
def test_emissions_that_cannot_begin_so(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SimpleNPCFGConfig(**{"init_logit_std": 1.0, "rms_norm": True, **change})  # type: ignore[arg-type]
