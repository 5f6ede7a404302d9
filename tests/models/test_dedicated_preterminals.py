"""Nonterminals that begin with preterminals of their own."""

from typing import Any

import pytest
import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.models import SimpleNPCFGConfig, build_model

SIZES = [(96, 192), (100, 130), (300, 300), (20, 50)]


def begun(dedicated_preterminals: float, **keys: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"nonterminals": 96, "preterminals": 192, "embedding": 128}
    config = SimpleNPCFGConfig(
        **{**sizes, "init_logit_std": 2.0, "rms_norm": True, "dedicated_preterminals": dedicated_preterminals} | keys
    )
    return build_model(config, 50).eval()


def own_shares(model: Any) -> Tensor:
    """[N]: how much of its left productions each nonterminal gives to its own preterminals."""
    left = model.grammar().detached().left
    states, tags = model.symbol_groups
    owners = torch.arange(tags) * states // tags
    return torch.zeros(states).index_add_(0, owners, left[owners, states + torch.arange(tags)])


@pytest.mark.parametrize("keys", [{}, {"shared_embeddings": False}, {"networks": "released"}])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("share", [0.4, 0.9])
def test_they_begin_with_the_share_asked_for(share: float, sizes: tuple[int, int], keys: dict[str, Any]) -> None:
    """Measured on all nonterminals, of which the start looks at some."""
    model = begun(share, nonterminals=sizes[0], preterminals=sizes[1], **keys)
    assert float(own_shares(model).mean()) == pytest.approx(share, abs=0.05)


def test_all_other_scores_stay_as_far_apart() -> None:
    """Right productions and emissions as before; left ones to nonterminals up to a third farther, since features of
    parents and of children now share their main direction."""
    given, plain = (begun(share).grammar().detached() for share in (0.9, 0.0))
    left, right = (
        [float(table[:, :96].log().std(-1).mean()) for table in tables]
        for tables in ((given.left, plain.left), (given.right, plain.right))
    )
    assert right[0] == pytest.approx(right[1], rel=0.02)
    assert 1 < left[0] / left[1] < 4 / 3
    words = [float(grammar.emissions.of_words(1, 49).std(0).mean()) for grammar in (given, plain)]
    assert words[0] == pytest.approx(words[1], rel=0.1)
    shares = own_shares(begun(0.0))
    assert float(shares.mean()) < 0.05


def test_what_is_out_of_reach_is_taken_as_far_as_it_goes() -> None:
    few = {"nonterminals": 8, "preterminals": 16, "embedding": 8, "init_logit_std": 0.5}
    reached = [float(own_shares(begun(share, **few)).mean()) for share in (0.0, 0.9, 0.99)]
    assert reached[0] < reached[1] == reached[2] < 0.9


@pytest.mark.parametrize("share", [0.0, 0.9])
def test_no_symbol_begins_as_its_own_child(share: float) -> None:
    """Parents and children share their embeddings, and a residual layer hands them on."""
    model = begun(share, nonterminals=300, preterminals=300, embedding=256)
    grammar = model.grammar().detached()
    for rules in (grammar.left, grammar.right):
        assert float(rules[:, :300].diagonal().mean()) < 0.06


def test_a_model_of_sizes_alone_can_be_made() -> None:
    """As the estimate of a run's memory does."""
    with torch.device("meta"):
        assert begun(0.9).symbols.is_meta


def test_every_weight_still_learns() -> None:
    """Two networks begin with the same numbers; their gradients differ."""
    model = begun(0.9).train()
    words = torch.randint(1, 50, (4, 6), generator=torch.Generator().manual_seed(1))
    model.loss(words, torch.tensor([6, 6, 5, 4])).sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0, name
    assert not torch.allclose(model.parent.linear.bias.grad, model.left_child.linear.bias.grad)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dedicated_preterminals": 1.0}, r"model\.dedicated_preterminals = 1\.0; it must be at least 0 and below 1"),
        ({"dedicated_preterminals": float("nan")}, r"model\.dedicated_preterminals = nan; it must be"),
        (
            {"init_logit_std": 0.0},
            r"model\.dedicated_preterminals = 0\.9 needs logits that differ.*set model\.init_logit_std=2",
        ),
        (
            {"rms_norm": False},
            r"model\.dedicated_preterminals = 0\.9 needs .* RMS normalisation.*model\.rms_norm=true",
        ),
        ({"tied_children": True}, r"set model\.tied_children=false"),
        ({"preterminals": 95}, r"set model\.preterminals to 96 or more"),
    ],
)
def test_starts_that_cannot_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        begun(**{"dedicated_preterminals": 0.9} | change)
