"""The networks of the authors' programs: their formulas written out, their gradients, and how their weights begin."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simplepcfg.errors import InputError
from simplepcfg.models import KINDS, build_model
from simplepcfg.models.low_rank_hmm import orthogonal_blocks
from simplepcfg.models.networks import ResidualBlock, ResidualNetwork

WORDS = 12  # ids 1 … 11
TEXT = torch.tensor([[1, 5, 11, 2], [3, 4, 6, 9]])
GRAMMAR = {"nonterminals": 4, "preterminals": 5, "embedding": 6}
CHAIN = {"states": 7, "embedding": 6}
SIZES: dict[str, dict[str, Any]] = {
    "n-pcfg": GRAMMAR,
    "c-pcfg": GRAMMAR | {"latent": 3, "encoder": 4},
    "tn-pcfg": GRAMMAR | {"rank": 3},
    "rank-pcfg": GRAMMAR | {"rank": 3},
    "hmm": CHAIN,
    "lhmm": CHAIN | {"rank": 4},
    "rank-hmm": CHAIN | {"rank": 4},
}


def model(kind: str, words: int = WORDS, **sizes: Any) -> Any:
    torch.manual_seed(0)
    return build_model(KINDS[kind](**(sizes or SIZES[kind])), words)


def spread(network: nn.Module) -> None:
    """Weights far enough from 0 for every term of a formula to show, with every ReLU on for some rows."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.6)


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return x @ layer.weight.T + layer.bias


def residual(block: ResidualBlock, x: Tensor) -> Tensor:
    return x + (linear(block.outer, (linear(block.inner, x)).clamp(min=0))).clamp(min=0)


def network(parts: ResidualNetwork, x: Tensor) -> Tensor:
    """Lin, Res, Res."""
    assert len(parts) == 3
    return residual(parts[2], residual(parts[1], linear(parts[0], x)))  # type: ignore[arg-type]


def chain_log_p(start: Tensor, transitions: Tensor, emit: Tensor) -> Tensor:
    """Of the sentences of TEXT, by the forward algorithm as it is written."""
    found = []
    for sentence in TEXT.tolist():
        alpha = start * emit[:, sentence[0] - 1]
        for word in sentence[1:]:
            alpha = (alpha @ transitions) * emit[:, word - 1]
        found.append(alpha.sum().log())
    return torch.stack(found)


def tree_log_p(root: Tensor, rules: Tensor, emit: Tensor) -> Tensor:
    """Of the sentences of TEXT under rules [A, B, C], by the inside algorithm as it is written."""
    found, (states, every, _) = [], rules.shape
    for sentence in TEXT.tolist():
        inside = {}
        for i, word in enumerate(sentence):
            inside[i, i + 1] = torch.cat((emit.new_zeros(states), emit[:, word - 1]))
        for width, i in itertools.product(range(2, 5), range(4)):
            if (j := i + width) <= 4:
                pairs = sum(torch.outer(inside[i, k], inside[k, j]) for k in range(i + 1, j))
                above = torch.einsum("abc,bc->a", rules, pairs)
                inside[i, j] = torch.cat((above, above.new_zeros(every - states)))
        found.append((root * inside[0, 4][:states]).sum().log())
    return torch.stack(found)


def n_pcfg(m: Any) -> Tensor:
    split = GRAMMAR["nonterminals"]
    root = linear(m.root_scores, network(m.root, m.start[0])).softmax(0)
    rules = linear(m.rules, m.symbols[:split]).softmax(-1).view(split, 9, 9)
    emit = (network(m.emission, m.symbols[split:]) @ m.word_embeddings.T + m.word_bias).softmax(-1)
    return tree_log_p(root, rules, emit)


def rank_pcfg(m: Any) -> Tensor:
    split = GRAMMAR["nonterminals"]
    root = linear(m.root_scores, network(m.root, m.start[0])).softmax(0)
    up, left, right = (
        linear(part[0], m.symbols).clamp(min=0) @ m.ranks.T for part in (m.parent, m.left_child, m.right_child)
    )
    rules = torch.einsum("ar,br,cr->abc", up[:split].softmax(1), left.softmax(0), right.softmax(0))
    emit = (network(m.emission, m.symbols[split:]) @ m.word_embeddings.T + m.word_bias).softmax(-1)
    return tree_log_p(root, rules, emit)


def tn_pcfg(m: Any) -> Tensor:
    split = GRAMMAR["nonterminals"]
    root = linear(m.root[1], network(m.root[0], m.start[0])).softmax(0)
    up, left, right = (
        linear(part[2], linear(part[0], m.symbols).clamp(min=0)) for part in (m.parent, m.left_child, m.right_child)
    )
    rules = torch.einsum("ar,br,cr->abc", up[:split].softmax(1), left.softmax(0), right.softmax(0))
    words, bias = m.word_embeddings[:, :-1], m.word_embeddings[:, -1]
    return tree_log_p(root, rules, (network(m.emission, m.tags) @ words.T + bias).softmax(-1))


def hmm(m: Any) -> Tensor:
    start = (m.next_symbols @ network(m.first, m.start[0])).softmax(0)
    transitions = (m.symbols @ m.next_symbols.T).softmax(-1)
    states = residual(m.emission[1], residual(m.emission[0], m.emitting_symbols))
    return chain_log_p(start, transitions, (states @ m.word_embeddings.T).softmax(-1))


def lhmm(m: Any) -> Tensor:
    start = network(m.first, m.start[0])
    of_start = (m.features @ start - start.square().sum() / 2).exp()  # [r]
    of_next = (m.next_symbols @ m.features.T - m.next_symbols.square().sum(1, keepdim=True) / 2).exp()  # [S, r]
    kernel = (m.symbols @ m.features.T).exp() @ (m.next_symbols @ m.features.T).exp().T
    states = residual(m.emission[1], residual(m.emission[0], m.emitting_symbols))
    emit = (states @ m.word_embeddings.T).softmax(-1)
    first = of_next @ of_start
    return chain_log_p(first / first.sum(), kernel / kernel.sum(1, keepdim=True), emit)


def rank_hmm(m: Any) -> Tensor:
    start = (network(m.first, m.start_symbols) @ m.start[0]).softmax(0)
    into, out_of = (m.symbols @ m.ranks.T).softmax(1), (m.next_symbols @ m.ranks.T).softmax(0)
    emit = (network(m.emission, m.word_embeddings) @ m.emitting_ranks.T).softmax(0)  # [V - 1, r]
    found = []
    for sentence in TEXT.tolist():  # over states, each of which chooses a rank for its word and the next state
        alpha = start
        for word in sentence:
            alpha = out_of @ ((alpha @ into) * emit[word - 1])
        found.append(alpha.sum().log())
    return torch.stack(found)


REFERENCES = {
    "n-pcfg": n_pcfg,
    "rank-pcfg": rank_pcfg,
    "tn-pcfg": tn_pcfg,
    "hmm": hmm,
    "lhmm": lhmm,
    "rank-hmm": rank_hmm,
}


@pytest.mark.parametrize("kind", REFERENCES)
def test_log_p_and_gradients_are_those_of_the_formulas(kind: str) -> None:
    m = model(kind).double()
    spread(m)
    parameters = list(m.parameters())
    expected = REFERENCES[kind](m)
    by_formula = torch.autograd.grad(expected.sum(), parameters)
    for training in (True, False):
        found = m.train(training).log_likelihood(TEXT)
        torch.testing.assert_close(found, expected)
        for (name, _), one, other in zip(
            m.named_parameters(), torch.autograd.grad(found.sum(), parameters), by_formula, strict=True
        ):
            torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


def test_every_sentence_of_a_compound_model_has_an_n_pcfg_of_its_own() -> None:
    m = model("c-pcfg").double().eval()
    spread(m)
    split, z = GRAMMAR["nonterminals"], torch.randn(3, dtype=torch.float64)
    both = [torch.cat((table, z.expand(len(table), -1)), 1) for table in (m.start, m.symbols)]
    rules = both[1][:split] @ torch.cat((m.rules.weight, m.sentence_rules.weight), 1).T + m.rules.bias
    expected = tree_log_p(
        linear(m.root_scores, network(m.root, both[0][0])).softmax(0),
        rules.softmax(-1).view(split, 9, 9),
        (network(m.emission, both[1][split:]) @ m.word_embeddings.T + m.word_bias).softmax(-1),
    )
    torch.testing.assert_close(m.grammar_of(z.expand(2, -1)).log_partition(TEXT), expected)


@pytest.mark.parametrize("kind", REFERENCES)
def test_gradients_by_finite_differences(kind: str) -> None:
    """Along one direction through all parameters, which a fault in any of them would show in."""
    m = model(kind).double()
    spread(m)
    parameters = list(m.parameters())
    directions = [torch.randn_like(parameter) for parameter in parameters]
    gradients = torch.autograd.grad(m.loss(TEXT).sum(), parameters)
    expected = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))

    def moved(step: float) -> Tensor:
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=step)
            found = m.loss(TEXT).sum()
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.sub_(direction, alpha=step)
        return found

    step = 1e-6
    torch.testing.assert_close((moved(step) - moved(-step)) / (2 * step), expected, rtol=1e-5, atol=1e-7)


def between_rows(logits: Tensor) -> float:
    """Standard deviation between rows of logits, each centred first: how different symbols begin."""
    centred = logits - logits.mean(1, keepdim=True)
    return float((centred - centred.mean(0)).std())


# Of the released programs' formulas at their sizes, 10,000 words; how different rules or factors and words begin.
INITIAL = {
    "n-pcfg": (0.020, 0.020),
    "tn-pcfg": (0.19, 0.34),
    "rank-pcfg": (0.007, 0.005),
    "hmm": (0.002, 0.003),
    "lhmm": (0.18, 0.003),
    "rank-hmm": (0.34, 0.39),
}
RELEASED_SIZES: dict[str, dict[str, Any]] = {
    "n-pcfg": {"nonterminals": 30, "preterminals": 60, "embedding": 256},
    "tn-pcfg": {"nonterminals": 250, "preterminals": 500, "rank": 500, "embedding": 256},
    "rank-pcfg": {"nonterminals": 9000, "preterminals": 4500, "rank": 1000, "embedding": 512},
    "hmm": {"states": 16384, "embedding": 256},
    "lhmm": {"states": 16384, "rank": 1024, "embedding": 256},
    "rank-hmm": {"states": 16384, "rank": 4096, "embedding": 256},
}
SAMPLE = 64  # rows whose logits are looked at; each has hundreds or thousands


@pytest.mark.parametrize("kind", INITIAL)
@torch.no_grad()
def test_symbols_begin_as_different_as_in_the_released_programs(kind: str) -> None:
    m = model(kind, 10_001, **RELEASED_SIZES[kind])
    tags = slice(-SAMPLE, None)
    if kind == "n-pcfg":
        rules = m.rules(m.symbols[:30])
        words = m.emission(m.symbols[tags]) @ m.word_embeddings.T
    elif kind == "tn-pcfg":
        rules = m.parent(m.symbols[:SAMPLE])
        words = m.emission(m.tags[tags]) @ m.word_embeddings[:, :-1].T
    elif kind == "rank-pcfg":
        rules = m.parent(m.symbols[:SAMPLE]) @ m.ranks.T
        words = m.emission(m.symbols[tags]) @ m.word_embeddings.T
    elif kind == "rank-hmm":
        rules = m.symbols[:SAMPLE] @ m.ranks.T
        words = m.emitting_ranks[tags] @ m.emission(m.word_embeddings).T
    else:
        rules = m.symbols[:SAMPLE] @ (m.features if kind == "lhmm" else m.next_symbols).T
        words = m.emission(m.emitting_symbols[tags]) @ m.word_embeddings.T
    assert (between_rows(rules), between_rows(words)) == pytest.approx(INITIAL[kind], rel=0.3)


def test_biases_begin_as_pytorch_draws_them() -> None:
    """Uniform within ± 1 / √fan-in, also those of an encoder's LSTM; matrices uniform within Xavier's bound."""
    m = model("c-pcfg", 2000, nonterminals=10, preterminals=20, embedding=64, latent=36, encoder=49)
    bounds = {
        "word_bias": 64**-0.5,
        "rules.bias": 100**-0.5,
        "rules.weight": (6 / 1000) ** 0.5,
        "sentence_rules.weight": (6 / 1000) ** 0.5,
        "emission.0.bias": 100**-0.5,
        "encoder.rightwards.bias_ih_l0": 49**-0.5,
        "encoder.leftwards.weight_hh_l0": (6 / (5 * 49)) ** 0.5,
        "encoder.word_embeddings.weight": (6 / 2049) ** 0.5,
    }
    weights = m.state_dict()
    for name, bound in bounds.items():
        assert 0.9 * bound < float(weights[name].abs().max()) <= bound, name
        assert float(weights[name].std()) == pytest.approx(bound / 3**0.5, rel=0.2), name


def test_kernel_features_are_orthogonal_in_blocks_and_as_long_as_normal_vectors() -> None:
    torch.manual_seed(0)
    table = torch.empty(150, 64)
    orthogonal_blocks(table)
    lengths = table.norm(dim=1)
    assert float(lengths.mean()) == pytest.approx(8, rel=0.03)
    assert float(lengths.std()) == pytest.approx(0.5**0.5, rel=0.2)  # of a chi distribution
    for block in (table / lengths[:, None]).split(64):
        torch.testing.assert_close(block @ block.T, torch.eye(len(block)), rtol=0, atol=1e-5)
    assert float((table[:64] @ table[64:128].T).abs().max()) > 1


@pytest.mark.parametrize("kind", ["rank-pcfg", "hmm", "lhmm", "rank-hmm"])
@pytest.mark.parametrize(("name", "value", "told"), [("rms_norm", True, "true"), ("init_logit_std", 2.0, "2.0")])
def test_settings_of_residual_networks_are_refused(kind: str, name: str, value: Any, told: str) -> None:
    with pytest.raises(InputError, match=rf"model\.{name} = {told} is a setting of residual networks; set model\.net"):
        KINDS[kind](**{name: value})
    KINDS[kind](networks="residual", **{name: value})
    with pytest.raises(InputError, match=r"model\.networks = 'paper'; take released or residual"):
        KINDS[kind](networks="paper")
