"""The neural operations on a GPU: bfloat16 against float64, the same bits every time, whole in a captured graph.

Needs torch, triton and pytest alone.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.ops.inside.packed_chart import stacked_rules
from simplepcfg.ops.neural import (
    emission_log_probabilities,
    emissions,
    log_normaliser,
    residual_networks,
    rule_probabilities,
    rules,
    softmax,
)
from simplepcfg.ops.neural.exponentials import exponentials_of_product
from simplepcfg.ops.neural.naive import (
    naive_emission_log_probabilities,
    naive_log_normaliser,
    naive_residual_network,
    naive_rule_probabilities,
)

pytestmark = pytest.mark.gpu

DEVICE = "cuda"
ROWS = [(0, 300), (0, 1000), (0, 1000), (0, 300), (300, 1000)]
Function = Callable[..., Tensor | tuple[Tensor, ...]]


def draw(*shape: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return (torch.randn(*shape, generator=generator, device=DEVICE) * scale).requires_grad_()


def words_of(v: int) -> Tensor:
    """Three quarters of 640 positions are one of ten words."""
    generator = torch.Generator(DEVICE).manual_seed(v)
    words = torch.randint(0, v, (16, 40), generator=generator, device=DEVICE)
    return torch.where(torch.rand(16, 40, generator=generator, device=DEVICE) < 0.75, words % 10, words)


def plain_rules(parents: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    parents, left, right = (tensor.bfloat16() for tensor in (parents, left, right))
    return (parents @ left.T).softmax(-1), (parents @ right.T).softmax(-1)


def plain_normaliser(features: Tensor, embeddings: Tensor) -> Tensor:
    return torch.logsumexp((features.bfloat16() @ embeddings.bfloat16().T).float(), -1)


def plain_emissions(features: Tensor, embeddings: Tensor, words: Tensor) -> Tensor:
    return (features.bfloat16() @ embeddings.bfloat16().T).float().log_softmax(-1).T[words]


def networks(table: Tensor, flat: tuple[Tensor, ...], one: Function) -> tuple[Tensor, ...]:
    return tuple(one(table[a:b], weights) for (a, b), weights in zip(ROWS, split_weights(flat), strict=True))


def split_weights(flat: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
    """Of each network: all of one form, or the last alone with residual blocks, as in an SN-PCFG."""
    each = 10 if len(flat) == 10 * len(ROWS) else 2
    first = [flat[k * each : (k + 1) * each] for k in range(len(ROWS) - 1)]
    return [*first, flat[each * (len(ROWS) - 1) :]]


def plain_network(x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
    x, *weights = (tensor.bfloat16() for tensor in (x, *weights))
    y = torch.nn.functional.linear(x, weights[0], weights[1])
    if len(weights) == 2:
        return x + y.relu()
    for k in range(2, len(weights), 4):
        middle = torch.nn.functional.linear(y, weights[k], weights[k + 1]).relu()
        y = y + torch.nn.functional.linear(middle, weights[k + 2], weights[k + 3]).relu()
    return y


def mine_networks(table: Tensor, *flat: Tensor) -> tuple[Tensor, ...]:
    return residual_networks(table, ROWS, split_weights(flat), precision="bf16")


def rule_case(n: int, s: int, d: int, scale: float) -> tuple[Function, Function, Function, list[Tensor]]:
    inputs = [draw(rows, d, scale=scale * d**-0.25, seed=k) for k, rows in enumerate((n, s, s))]
    return lambda *x: rule_probabilities(*x, precision="bf16"), plain_rules, naive_rule_probabilities, inputs


def emission_case(p: int, v: int, d: int, scale: float) -> tuple[Function, Function, Function, list[Tensor]]:
    inputs, words = [draw(rows, d, scale=scale * d**-0.25, seed=k) for k, rows in enumerate((p, v))], words_of(v)
    return (
        lambda *x: emission_log_probabilities(*x, words, precision="bf16"),
        lambda *x: plain_emissions(*x, words),
        lambda *x: naive_emission_log_probabilities(*x, words),
        inputs,
    )


def sentence_emission_case(
    b: int, p: int, v: int, d: int, scale: float
) -> tuple[Function, Function, Function, list[Tensor]]:
    inputs = [draw(*rows, d, scale=scale * d**-0.25, seed=k) for k, rows in enumerate(((b, p), (v,)))]
    words = words_of(v)[:b]
    return (
        lambda *x: emission_log_probabilities(*x, words, precision="bf16"),
        lambda f, e: torch.stack([plain_emissions(f[k], e, words[k]) for k in range(b)]),
        lambda *x: naive_emission_log_probabilities(*x, words),
        inputs,
    )


def normaliser_case(p: int, v: int, d: int, scale: float) -> tuple[Function, Function, Function, list[Tensor]]:
    inputs = [draw(rows, d, scale=scale * d**-0.25, seed=k) for k, rows in enumerate((p, v))]
    return lambda *x: log_normaliser(*x, precision="bf16"), plain_normaliser, naive_log_normaliser, inputs


def network_case(d: int, layers: int = 0) -> tuple[Function, Function, Function, list[Tensor]]:
    """The first `layers` networks are residual layers."""
    counts = [2 if k < layers else 10 for k in range(len(ROWS))]
    shapes = [(d, d) if k % 2 == 0 else (d,) for count in counts for k in range(count)]
    weights = [draw(*shape, scale=d**-0.5 if len(shape) == 2 else 0.1, seed=k) for k, shape in enumerate(shapes)]
    return (
        mine_networks,
        lambda table, *flat: networks(table, flat, plain_network),
        lambda table, *flat: networks(table, flat, naive_residual_network),
        [draw(1000, d, seed=99), *weights],
    )


CASES: dict[str, Callable[[], tuple[Function, Function, Function, list[Tensor]]]] = {
    "rules": lambda: rule_case(300, 777, 64, 1.0),
    "rules, peaked": lambda: rule_case(300, 777, 64, 4.0),
    "rules, rows held": lambda: rule_case(2500, 12288, 512, 2.0),
    "rules, rows held in two blocks": lambda: rule_case(300, 24576, 64, 2.0),
    "rules, long rows": lambda: rule_case(260, 40001, 64, 2.0),
    "rules, longest rows": lambda: rule_case(20, 200_000, 64, 2.0),
    "one rule": lambda: rule_case(1, 2, 3, 1.0),
    "normaliser": lambda: normaliser_case(1000, 9999, 512, 2.0),
    "emissions": lambda: emission_case(300, 777, 64, 1.0),
    "emissions, peaked": lambda: emission_case(300, 777, 64, 4.0),
    "emissions, large": lambda: emission_case(2048, 9999, 512, 2.0),
    "emissions, many words": lambda: emission_case(260, 40001, 64, 2.0),
    "sentences' emissions": lambda: sentence_emission_case(4, 300, 777, 64, 2.0),
    "sentences' emissions, large": lambda: sentence_emission_case(8, 2048, 9999, 512, 2.0),
    "networks": lambda: network_case(64),
    "networks, odd": lambda: network_case(72),
    "networks, wide": lambda: network_case(512),
    "residual layers": lambda: network_case(64, 4),
    "residual layers, odd": lambda: network_case(72, 4),
    "residual layers, wide": lambda: network_case(512, 4),
}


def answers(function: Function, inputs: list[Tensor]) -> list[Tensor]:
    """Outputs and gradients."""
    found = function(*inputs)
    outputs = (found,) if isinstance(found, Tensor) else found
    grads = [draw(*output.shape, seed=7 + k).detach().to(output.dtype) for k, output in enumerate(outputs)]
    return [tensor.detach() for tensor in (*outputs, *torch.autograd.grad(outputs, inputs, grads))]


@pytest.mark.parametrize("name", CASES)
def test_error_at_most_twice_that_of_plain_torch(name: str) -> None:
    mine, plain, naive, inputs = CASES[name]()
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    truth = answers(naive, exact)
    for one, two, true in zip(answers(mine, inputs), answers(plain, inputs), truth, strict=True):
        error, allowed = (float((found.double() - true).norm() / true.norm()) for found in (one, two))
        assert error <= 2 * allowed + 1e-5, (error, allowed)


@pytest.mark.parametrize("name", CASES)
def test_repeats_bit_for_bit(name: str) -> None:
    mine, _, _, inputs = CASES[name]()
    first = answers(mine, inputs)
    # What the first run left behind is what the second is handed: uninitialised memory must not show.
    poison = [torch.full((1 << 20,), torch.nan, device=DEVICE) for _ in range(64)]
    del poison
    assert all(torch.equal(one, two) for one, two in zip(first, answers(mine, inputs), strict=True))


@pytest.mark.parametrize("precision", ["bf16", "tf32", "fp32"])
def test_no_gradient_where_preterminals_are_certain(precision: str) -> None:
    """Preterminal t emits word t alone, with a logit of 300 and more; counts differ between a word's occurrences."""
    directions = torch.eye(200, 256, device=DEVICE) + draw(200, 256, scale=0.003).detach()
    embeddings = torch.cat([directions, torch.zeros(800, 256, device=DEVICE)]).requires_grad_()
    features = (300 * directions).requires_grad_()
    words = words_of(200)
    counts = draw(16, 40, 200).detach().abs()
    grad = torch.where(words[..., None] == torch.arange(200, device=DEVICE), counts, 0.0)
    found = emission_log_probabilities(features, embeddings, words, precision=precision)
    by_features, by_embeddings = torch.autograd.grad(found, [features, embeddings], grad)
    assert float(by_features.norm()) < 1e-2
    assert float(by_embeddings.norm()) < 1e-1


@pytest.mark.parametrize("size", [30.0, 1e3, 1e6])
def test_no_gradient_from_the_order_of_summation(size: float) -> None:
    """Logits of this size are sums of 512 products, in one order for the normaliser and in another for a word."""
    directions = torch.nn.functional.normalize(draw(200, 512).detach(), dim=-1)
    embeddings = torch.cat([directions, torch.zeros(800, 512, device=DEVICE)]).requires_grad_()
    features = (size * directions).requires_grad_()
    words = words_of(200)
    counts = draw(16, 40, 200).detach().abs()
    grad = torch.where(words[..., None] == torch.arange(200, device=DEVICE), counts, 0.0)
    found = emission_log_probabilities(features, embeddings, words, precision="bf16")
    assert float(found.detach().max()) <= 0.0
    by_features, by_embeddings = torch.autograd.grad(found, [features, embeddings], grad)
    assert float(by_features.norm()) < 1e-3
    assert float(by_embeddings.norm()) < 1e-3 * size


@pytest.mark.parametrize("name", ["rules", "emissions", "emissions, large", "normaliser", "networks"])
def test_in_a_graph(name: str) -> None:
    """Captured once, replayed on other values: what eager gives for them."""
    mine, _, _, inputs = CASES[name]()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    grads = [torch.ones_like(each) for each in answers(mine, inputs)[: -len(inputs)]]

    def run() -> list[Tensor]:
        found = mine(*inputs)
        outputs = (found,) if isinstance(found, Tensor) else found
        return [*outputs, *torch.autograd.grad(outputs, inputs, grads)]

    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    with torch.no_grad():
        for tensor in inputs:
            tensor.mul_(0.5)
    graph.replay()
    for one, two in zip(captured, run(), strict=True):
        torch.testing.assert_close(one.detach(), two.detach(), rtol=0, atol=0)


@pytest.mark.parametrize("precision", ["bf16", "tf32", "fp32"])
@pytest.mark.parametrize("own", [False, True])
def test_all_words_add_up_to_one(precision: str, own: bool) -> None:
    """Even where logits are in the hundreds and the operands' rounding alone moves them by more than one."""
    features, embeddings = draw(96, 64, scale=8.0), draw(777, 64, scale=8.0, seed=1)
    features = features.view(4, 24, 64) if own else features
    words = torch.arange(777, device="cuda")
    found = emission_log_probabilities(
        features, embeddings, words.expand(4, 777) if own else words, precision=precision
    )
    total = found.double().exp().sum(-2)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-3, atol=0.0)


def test_words_change_in_a_graph() -> None:
    features, embeddings, words = draw(64, 32), draw(50, 32, seed=1), words_of(50)

    def run() -> Tensor:
        found = emission_log_probabilities(features, embeddings, words, precision="bf16")
        return torch.autograd.grad(found.sum(), embeddings)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for shift in (1, 7):
        words.copy_((words + shift) % 50)
        graph.replay()
        assert torch.equal(captured, run())


def test_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small parts, accumulated, agree with few large ones."""
    for name in ("rules, rows held", "emissions, large"):
        mine, _, _, inputs = CASES[name]()
        whole = answers(mine, inputs)
        with monkeypatch.context() as patch:
            patch.setattr(rules, "GRADIENT_BYTES", 1)
            patch.setattr(rules, "LEAST_GRADIENT_ROWS", 256)
            patch.setattr(softmax, "LOGIT_BYTES", 1)
            patch.setattr(emissions, "KEPT_BYTES", 0)
            patch.setattr(emissions, "RECOMPUTED_BYTES", 4 << 20)
            parts = answers(mine, inputs)
        for one, two in zip(parts, whole, strict=True):
            assert float((one.double() - two.double()).norm()) <= 1e-3 * float(two.double().norm())


@pytest.mark.parametrize("overflowed", [[], [0, 3, 400, 401, 700, 999], list(range(1, 1000, 2))])
def test_rows_that_overflowed_are_recomputed(overflowed: list[int]) -> None:
    a, b = (draw(rows, 128, scale=0.3, seed=rows).detach() for rows in (1000, 3000))
    a[:, 0], b[:, 0] = 0.0, 0.0
    a[overflowed, 0], b[2500, 0] = 1.0, 200.0
    a, b = a.bfloat16(), b.bfloat16()
    out = torch.empty(1000, 3008, dtype=torch.bfloat16, device=DEVICE)[:, :3000]
    log_sums, factors = exponentials_of_product(a, b, out)
    logits = a.double() @ b.double().T
    torch.testing.assert_close(log_sums.double(), logits.logsumexp(-1), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(out.double() * factors.double()[:, None], logits.softmax(-1), rtol=2**-8, atol=1e-30)


def test_memory_of_rules() -> None:
    """Rules once, their gradient once, and buffers that do not grow with N."""
    n, s, d = 16384, 49152, 512
    inputs = [draw(rows, d, scale=d**-0.25, seed=k) for k, rows in enumerate((n, s, s))]
    rule_bytes = 2 * n * s * 2
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    left, right = rule_probabilities(*inputs, precision="bf16")
    grads = torch.ones_like(stacked_rules(left, right, torch.bfloat16)).chunk(2)
    torch.autograd.grad((left, right), inputs, grads)
    # Two parts of the gradient by logits at once; forward's logits come and go before there is a gradient.
    buffers = 2 * rules.GRADIENT_BYTES + (128 << 20) + 8 * d * (n + 2 * s)
    assert torch.cuda.max_memory_allocated() - before <= 2 * rule_bytes + buffers


def test_model_in_bf16() -> None:
    """The inside algorithm takes bfloat16 rules as they are; loss and gradient stay near float32's."""
    torch.manual_seed(0)
    model = SimpleNPCFG(SimpleNPCFGConfig(nonterminals=128, preterminals=256, embedding=128), 1001).to(DEVICE).train()
    words = torch.randint(1, 1001, (8, 12), device=DEVICE)
    found: dict[str, list[Tensor]] = {}
    for precision in ("fp32", "tf32", "bf16"):
        model.precision = precision
        model.zero_grad()
        loss = model.loss(words)
        loss.mean().backward()
        found[precision] = [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
    grammar = model.grammar()
    assert grammar.left.dtype == grammar.right.dtype == torch.bfloat16
    assert stacked_rules(grammar.left, grammar.right, torch.bfloat16).data_ptr() == grammar.left.data_ptr()
    for precision, least in (("tf32", 0.9999), ("bf16", 0.98)):
        torch.testing.assert_close(found[precision][0], found["fp32"][0], rtol=2e-3, atol=0.0)
        one, two = (torch.cat([grad.flatten() for grad in found[kind][1:]]) for kind in (precision, "fp32"))
        assert float(torch.nn.functional.cosine_similarity(one, two, dim=0)) >= least
    model.eval()
    assert model.grammar().left.dtype == torch.float32
