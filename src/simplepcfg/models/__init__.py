"""Neural networks that give grammars. Importable with torch alone: configurations are plain dataclasses."""

from typing import Any

from torch import nn

from simplepcfg.models.neural_hmm import NeuralHMM, NeuralHMMConfig
from simplepcfg.models.simple_cpcfg import SimpleCPCFG, SimpleCPCFGConfig
from simplepcfg.models.simple_npcfg import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.models.sizes import ModelSizes

__all__ = [
    "KINDS",
    "MODELS",
    "ModelConfig",
    "ModelSizes",
    "NeuralHMM",
    "NeuralHMMConfig",
    "SimpleCPCFG",
    "SimpleCPCFGConfig",
    "SimpleNPCFG",
    "SimpleNPCFGConfig",
    "build_model",
]

# A new model is one line here and one in MODELS; `kind` tells the configurations apart.
ModelConfig = (
    SimpleNPCFGConfig
    | SimpleCPCFGConfig
    | NeuralHMMConfig
)  # fmt: skip

MODELS: dict[Any, type[nn.Module]] = {
    SimpleNPCFGConfig: SimpleNPCFG,
    SimpleCPCFGConfig: SimpleCPCFG,
    NeuralHMMConfig: NeuralHMM,
}

KINDS: dict[str, Any] = {config.kind: config for config in MODELS}


def build_model(config: ModelConfig, vocabulary_size: int) -> nn.Module:
    """The model that a configuration describes, freshly initialised from torch's random state."""
    return MODELS[type(config)](config, vocabulary_size)
