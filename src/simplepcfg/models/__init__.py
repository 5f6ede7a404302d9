"""Neural parameterisations of grammars.

This package needs torch alone: the configurations of models are plain dataclasses.
"""

from collections.abc import Callable
from typing import Any

from simplepcfg.errors import InputError
from simplepcfg.models.compound import CompoundModel
from simplepcfg.models.cpcfg import CPCFG, CPCFGConfig
from simplepcfg.models.exact import ExactModel
from simplepcfg.models.low_rank_hmm import LowRankHMM, LowRankHMMConfig
from simplepcfg.models.neural_hmm import NeuralHMM, NeuralHMMConfig
from simplepcfg.models.npcfg import NPCFG, NPCFGConfig
from simplepcfg.models.rank_hmm import RankHMM, RankHMMConfig
from simplepcfg.models.rank_pcfg import RankPCFG, RankPCFGConfig
from simplepcfg.models.settings import ModelSizes
from simplepcfg.models.simple_cpcfg import SimpleCPCFG, SimpleCPCFGConfig
from simplepcfg.models.simple_npcfg import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.models.tn_pcfg import TensorPCFG, TensorPCFGConfig

__all__ = [
    "CPCFG",
    "KINDS",
    "MODELS",
    "NPCFG",
    "CPCFGConfig",
    "LowRankHMM",
    "LowRankHMMConfig",
    "Model",
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

# A new model is one line here and one in MODELS, besides its import and `__all__`; `kind` tells configurations apart.
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

Model = ExactModel | CompoundModel

MODELS: dict[Any, Callable[[Any, int], Model]] = {
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


def build_model(config: ModelConfig, vocabulary_size: int) -> Model:
    """Return the model of a configuration, initialised from torch's random state.

    `vocabulary_size` counts padding, id 0, and the words. Raises InputError if it is below 2.

    >>> model = build_model(SimpleNPCFGConfig(nonterminals=4, preterminals=8, embedding=16), vocabulary_size=100)
    >>> model.grammar().root.shape
    torch.Size([4])
    """
    if vocabulary_size < 2:
        raise InputError(f"vocabulary_size = {vocabulary_size}; it must hold padding and at least one word")
    return MODELS[type(config)](config, vocabulary_size)
