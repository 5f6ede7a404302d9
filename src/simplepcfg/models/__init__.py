"""Neural networks that give grammars. Importable with torch alone: configurations are plain dataclasses."""

from typing import Any

from torch import nn

from simplepcfg.models.cpcfg import CPCFG, CPCFGConfig
from simplepcfg.models.low_rank_hmm import LowRankHMM, LowRankHMMConfig
from simplepcfg.models.neural_hmm import NeuralHMM, NeuralHMMConfig
from simplepcfg.models.npcfg import NPCFG, NPCFGConfig
from simplepcfg.models.rank_hmm import RankHMM, RankHMMConfig
from simplepcfg.models.rank_pcfg import RankPCFG, RankPCFGConfig
from simplepcfg.models.simple_cpcfg import SimpleCPCFG, SimpleCPCFGConfig
from simplepcfg.models.simple_npcfg import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.models.sizes import ModelSizes
from simplepcfg.models.tn_pcfg import TensorPCFG, TensorPCFGConfig

__all__ = [
    "CPCFG",
    "KINDS",
    "MODELS",
    "NPCFG",
    "CPCFGConfig",
    "LowRankHMM",
    "LowRankHMMConfig",
    "ModelConfig",
    "ModelSizes",
    "NPCFGConfig",
    "NeuralHMM",
    "NeuralHMMConfig",
    "RankHMM",
    "RankHMMConfig",
    "RankPCFG",
    "RankPCFGConfig",
    "SimpleCPCFG",
    "SimpleCPCFGConfig",
    "SimpleNPCFG",
    "SimpleNPCFGConfig",
    "TensorPCFG",
    "TensorPCFGConfig",
    "build_model",
]

# A new model is one line here and one in MODELS; `kind` tells the configurations apart.
ModelConfig = (
    SimpleNPCFGConfig
    | SimpleCPCFGConfig
    | RankPCFGConfig
    | TensorPCFGConfig
    | NPCFGConfig
    | CPCFGConfig
    | NeuralHMMConfig
    | LowRankHMMConfig
    | RankHMMConfig
)  # fmt: skip

MODELS: dict[Any, type[nn.Module]] = {
    SimpleNPCFGConfig: SimpleNPCFG,
    SimpleCPCFGConfig: SimpleCPCFG,
    RankPCFGConfig: RankPCFG,
    TensorPCFGConfig: TensorPCFG,
    NPCFGConfig: NPCFG,
    CPCFGConfig: CPCFG,
    NeuralHMMConfig: NeuralHMM,
    LowRankHMMConfig: LowRankHMM,
    RankHMMConfig: RankHMM,
}

KINDS: dict[str, Any] = {config.kind: config for config in MODELS}


def build_model(config: ModelConfig, vocabulary_size: int) -> nn.Module:
    """The model that a configuration describes, freshly initialised from torch's random state."""
    return MODELS[type(config)](config, vocabulary_size)
