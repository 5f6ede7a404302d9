"""Networks that normalise their features, alone and as the models compute them."""

import pytest
import torch

from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.models.networks import FeatureNetwork, FeatureNorm, ResidualLayer, ResidualNetwork, initialise
from simplepcfg.models.shared_layers import apply_networks


def make_network(rms_norm: bool = True) -> ResidualNetwork:
    torch.manual_seed(0)
    network = ResidualNetwork(8, 16, 2, rms_norm=rms_norm).double()
    initialise(network)
    return network


def test_features_have_the_size_of_the_gains() -> None:
    features = make_network()(torch.randn(5, 8, dtype=torch.float64))
    torch.testing.assert_close(features.square().mean(-1), torch.full((5,), 16**-0.5, dtype=torch.float64))


def test_growing_layers_do_not_grow_scores() -> None:
    network, inputs = make_network(), torch.randn(5, 8, dtype=torch.float64)
    before = network(inputs)
    with torch.no_grad():
        for parameter in network[0].parameters():
            parameter *= 50  # the blocks, whose biases begin at 0, hand it on
    torch.testing.assert_close(network(inputs), before)


def make(form: str, rms_norm: bool) -> FeatureNetwork:
    torch.manual_seed(0)
    if form == "layer":
        network = ResidualLayer(8, rms_norm=rms_norm)
    else:
        network = ResidualNetwork(8, 8, 2, outer_residual=form == "outer residual", rms_norm=rms_norm)
    initialise(network, "xavier_uniform")
    return network.double()


@pytest.mark.parametrize("rms_norm", [False, True])
@pytest.mark.parametrize("form", ["layer", "blocks", "outer residual"])
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_the_fused_way_gives_the_same(form: str, rms_norm: bool, precision: str) -> None:
    network, table = make(form, rms_norm), torch.randn(6, 8, dtype=torch.float64, requires_grad=True)
    leaves = [table, *network.parameters()]
    (found,) = apply_networks(table, [network], precision, [(1, 5)])
    expected = network(table[1:5])
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad((y * weights).sum(), leaves) for y in (found, expected))
    torch.testing.assert_close(ours, theirs)


def test_gains_begin_so_that_scores_deviate_by_one() -> None:
    torch.manual_seed(0)
    config = SimpleNPCFGConfig(nonterminals=64, preterminals=128, embedding=64, rms_norm=True, networks="paper")
    model = SimpleNPCFG(config, 20)
    gains = [part.gains for part in model.modules() if isinstance(part, FeatureNorm)]
    assert len(gains) == 5  # of f1 to f5
    grammar = model.grammar()
    scores = grammar.left.detach().log()
    assert 0.3 < float((scores - scores.mean(-1, keepdim=True)).std()) < 2
