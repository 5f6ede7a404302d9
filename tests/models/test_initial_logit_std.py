"""The initial standard deviation of logits is the configured one, in every model that has the key."""

from typing import Any

import pytest
import torch
from torch import Tensor

from simplepcfg.models import build_model
from simplepcfg.models.low_rank_hmm import LowRankHMMConfig
from simplepcfg.models.neural_hmm import NeuralHMMConfig
from simplepcfg.models.npcfg import NPCFGConfig
from simplepcfg.models.rank_hmm import RankHMMConfig
from simplepcfg.models.rank_pcfg import RankPCFGConfig
from simplepcfg.models.simple_cpcfg import SimpleCPCFGConfig
from simplepcfg.models.tn_pcfg import TensorPCFGConfig

WORDS, WIDTH = 200, 64
KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "hmm": (NeuralHMMConfig, {"states": 96, "networks": "residual"}),
    "lhmm": (LowRankHMMConfig, {"states": 96, "rank": 64, "networks": "residual"}),
    "rank-hmm": (RankHMMConfig, {"states": 96, "rank": 64, "networks": "residual"}),
    "rank-pcfg": (RankPCFGConfig, {"nonterminals": 48, "preterminals": 96, "rank": 64, "networks": "residual"}),
    "sc-pcfg": (SimpleCPCFGConfig, {"nonterminals": 48, "preterminals": 96, "latent": 4, "encoder": 8}),
    "n-pcfg": (NPCFGConfig, {"nonterminals": 12, "preterminals": 24}),
    "tn-pcfg": (TensorPCFGConfig, {"nonterminals": 48, "preterminals": 96, "rank": 64}),
}
NORMALISED = ("hmm", "lhmm", "rank-hmm", "rank-pcfg", "sc-pcfg")


def begun(kind: str, **keys: Any) -> Any:
    torch.manual_seed(0)
    config, sizes = KINDS[kind]
    return build_model(config(**sizes, embedding=WIDTH, **keys), WORDS + 1).eval()


def tables(kind: str, model: Any) -> list[Tensor]:
    """Log-probabilities whose deviation is that of the scores: of rules or transitions, and of words."""
    grammar = model.grammar_of(torch.zeros(1, 4)) if kind == "sc-pcfg" else model.grammar()
    match kind:
        case "hmm":
            rules = grammar.transitions
        case "lhmm":
            rules = grammar.transitions[1]
        case "rank-hmm":
            rules = model.factors()[1]
        case "rank-pcfg" | "tn-pcfg":
            rules = grammar.to_left
        case "n-pcfg":
            rules = grammar.rules.flatten(1)
        case "sc-pcfg":
            rules = grammar.left
    words = grammar.emissions.log_probabilities(torch.arange(1, WORDS + 1)[None])[0]  # [V, tags]
    return [rules.detach().log(), words.detach().T]


@pytest.mark.parametrize("rms_norm", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_initial_logits_have_the_configured_deviation(kind: str, rms_norm: bool) -> None:
    """Twice the deviation for twice the number, and about the number itself; nearer to it where normalised."""
    if rms_norm and kind not in NORMALISED:
        with pytest.raises(TypeError):
            begun(kind, rms_norm=True)
        return
    keys = {"rms_norm": True} if rms_norm else {}
    one, two = (
        [float(table.std(-1).mean()) for table in tables(kind, begun(kind, init_logit_std=scores, **keys))]
        for scores in (1.0, 2.0)
    )
    assert two == pytest.approx([2 * deviation for deviation in one], rel=0.05)
    assert all(0.6 < deviation < 2.2 for deviation in one)
    if rms_norm:
        assert one == pytest.approx([1.0, 1.0], rel=0.35)


@pytest.mark.parametrize("kind", NORMALISED)
def test_models_with_rms_norm_learn(kind: str) -> None:
    """The gains are part of every path: each has a gradient, and a step along it lowers the loss."""
    model = begun(kind, rms_norm=True, init_logit_std=1.0).train()
    words = torch.randint(1, WORDS + 1, (4, 5), generator=torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    before = model.loss(words).mean()
    before.backward()
    gains = [parameter for name, parameter in model.named_parameters() if name.endswith("gains")]
    assert gains
    assert all(parameter.grad is not None and float(parameter.grad.norm()) > 0 for parameter in gains)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.01 * parameter.grad
    torch.manual_seed(2)
    assert model.loss(words).mean().item() < before.item()
