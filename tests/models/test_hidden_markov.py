"""The three neural hidden Markov models: distributions, equivalences, and that they learn."""

import itertools

import pytest
import torch
from torch import nn

from model_checks import check_gradients
from simplepcfg.errors import InputError
from simplepcfg.grammars import HiddenMarkovModel
from simplepcfg.models import (
    LowRankHMM,
    LowRankHMMConfig,
    NeuralHMMConfig,
    RankHMM,
    RankHMMConfig,
    build_model,
)
from tiny_runs import short_trees

WORDS = 8  # ids 1 … 7
KINDS = {"hmm": NeuralHMMConfig, "lhmm": LowRankHMMConfig, "rank-hmm": RankHMMConfig}
CASES = [*KINDS, *(f"residual {kind}" for kind in KINDS)]  # as released, and this package's variants


def model(kind: str, words: int = WORDS, **sizes: object) -> nn.Module:
    torch.manual_seed(0)
    *variant, kind = kind.split()
    given: dict[str, object] = {"states": 9, "embedding": 6}
    if variant:
        given |= {"networks": "residual", "init_logit_std": 1.0}
    if kind != "hmm":
        given |= {"rank": 4}
    return build_model(KINDS[kind](**given | sizes), words)


@pytest.mark.parametrize("kind", CASES)
def test_distributions(kind: str) -> None:
    grammar = model(kind).eval().grammar()
    assert isinstance(grammar, HiddenMarkovModel)
    torch.testing.assert_close(grammar.start.sum(), torch.tensor(1.0))
    whole = grammar.factors[0] if len(grammar.factors) == 1 else grammar.factors[0] @ grammar.factors[1]
    torch.testing.assert_close(whole.sum(-1), torch.ones(whole.shape[0]))
    every = grammar.emissions.log_probabilities(torch.arange(1, WORDS)[None])
    torch.testing.assert_close(every.logsumexp(1), torch.zeros(1, whole.shape[0]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("n", [1, 3])
def test_strings_of_one_length_share_a_probability_of_one(kind: str, n: int) -> None:
    words = torch.tensor(list(itertools.product(range(1, WORDS), repeat=n)))
    found = model(kind).double().eval().log_likelihood(words)
    torch.testing.assert_close(found.exp().sum(), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize("kind", CASES)
def test_every_parameter_gets_a_gradient(kind: str) -> None:
    network = model(kind)
    network.loss(torch.tensor([[1, 2, 3, 4], [5, 6, 7, 0]]), torch.tensor([4, 3])).sum().backward()
    check_gradients(network)


@pytest.mark.parametrize("kind", CASES)
def test_training_and_evaluation_give_one_model(kind: str) -> None:
    network = model(kind)
    words, lengths = torch.tensor([[1, 5, 7, 2, 7], [3, 4, 0, 0, 0]]), torch.tensor([5, 2])
    trained = network.train().grammar().log_partition(words, lengths)
    torch.testing.assert_close(network.eval().grammar().log_partition(words, lengths), trained)
    torch.testing.assert_close(network.loss(words, lengths), -trained)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_precisions_of_training(kind: str, precision: str) -> None:
    words = torch.tensor([[1, 5, 7, 2, 7], [3, 4, 0, 0, 0]])
    found = []
    for choice in (None, precision):
        network = model(kind, states=20, embedding=16)
        network.precision = choice
        loss = network.loss(words, torch.tensor([5, 2]))
        loss.sum().backward()
        grads = torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
        found.append((loss.detach(), grads))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-2, atol=0.0)
    assert float((found[1][1] - found[0][1]).norm()) <= 0.1 * float(found[0][1].norm())


def test_a_low_rank_transition_is_the_kernel_softmax() -> None:
    network = model("residual lhmm").double().eval()
    assert isinstance(network, LowRankHMM)
    kernel = (network.source(network.symbols) @ network.features.T).exp()
    others = (network.target(network.symbols) @ network.features.T).exp()
    scores = kernel @ others.T
    grammar = network.grammar()
    torch.testing.assert_close(grammar.factors[0] @ grammar.factors[1], scores / scores.sum(-1, keepdim=True))


def test_ranks_are_the_states_summed_out() -> None:
    """Forward over states, with words and next states by rank, as the model is defined."""
    network = model("residual rank-hmm").double().eval()
    assert isinstance(network, RankHMM)
    words = torch.tensor([[1, 5, 7, 2], [3, 3, 6, 1]])
    start, into, out_of, emitting, read = network.factors()
    emit = (emitting @ read.T).softmax(-1)  # [r, V - 1]
    expected = []
    for sentence in words.tolist():
        alpha = start
        for word in sentence:
            alpha = ((alpha @ into) * emit[:, word - 1]) @ out_of
        expected.append(alpha.sum().log())
    torch.testing.assert_close(network.log_likelihood(words), torch.stack(expected))


@pytest.mark.parametrize(
    ("kind", "setting", "message"),
    [
        ("hmm", {"states": 0}, "model.states = 0"),
        ("hmm", {"embedding": -1}, "model.embedding = -1"),
        ("lhmm", {"rank": 10}, "model.rank = 10; it must be at most model.states = 9"),
        ("rank-hmm", {"rank": 10}, "model.rank = 10; it must be at most model.states = 9"),
    ],
)
def test_impossible_sizes_are_named(kind: str, setting: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model(kind, **setting)


@pytest.mark.parametrize("kind", CASES[:4])
def test_better_than_words_alone(kind: str) -> None:
    """On the built-in treebank, after a second, clearly below the entropy of its words one by one."""
    sentences = [[*tree.words, "<eos>"] for tree in short_trees(160)]
    ids: dict[str, int] = {}
    encoded = [[ids.setdefault(word, len(ids) + 1) for word in sentence] for sentence in sentences]
    longest = max(map(len, encoded))
    words = torch.tensor([row + [0] * (longest - len(row)) for row in encoded])
    lengths = torch.tensor([len(row) for row in encoded])
    counts = torch.bincount(words[words > 0]).double()
    alone = float(torch.special.entr(counts / counts.sum()).sum())  # nats a word

    network = model(kind, len(ids) + 1, states=24, embedding=24, **extra(kind))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.03)
    for step in range(40):
        chosen = slice(40 * (step % 4), 40 * (step % 4 + 1))
        optimiser.zero_grad()
        network.loss(words[chosen], lengths[chosen]).mean().backward()
        optimiser.step()
    with torch.no_grad():
        found = -float(network.eval().log_likelihood(words, lengths).sum()) / int(lengths.sum())
    assert found < alone - 0.5, (found, alone)


def extra(kind: str) -> dict[str, int]:
    return {} if kind.endswith(" hmm") or kind == "hmm" else {"rank": 16}


def test_names_of_the_weights() -> None:
    """Checkpoints are read by these names."""
    two = {"symbols", "start", "word_embeddings"}
    released, residual = two | {"next_symbols", "emitting_symbols"}, {"first", "source", "target", "emission"}
    networks = {
        "hmm": (released, {"first", "emission"}),
        "lhmm": (released | {"features"}, {"first", "emission"}),
        "rank-hmm": (two | {"next_symbols", "ranks", "start_symbols", "emitting_ranks"}, {"first", "emission"}),
        "residual hmm": (two, residual),
        "residual lhmm": (two | {"features"}, residual),
        "residual rank-hmm": (two | {"next_symbols", "ranks"}, {"first", "emission"}),
    }
    for kind, (tables, parts) in networks.items():
        names = set(model(kind).state_dict())
        assert {name for name in names if "." not in name} == tables, kind
        assert {name.partition(".")[0] for name in names if "." in name} == parts, kind


def test_estimated_sizes_hold_for_every_kind() -> None:
    for kind, config in KINDS.items():
        sizes = config().sizes(16)
        assert min(sizes.activations, sizes.rules, sizes.tags, sizes.word_numbers) > 0, kind
        assert sizes.span_numbers == 0
