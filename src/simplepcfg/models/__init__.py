"""Neural networks that give grammars. Importable with torch alone: configurations are plain dataclasses."""

from simplepcfg.models.simple_npcfg import SimpleNPCFG, SimpleNPCFGConfig

__all__ = ["ModelConfig", "SimpleNPCFG", "SimpleNPCFGConfig", "build_model"]

ModelConfig = SimpleNPCFGConfig


def build_model(config: ModelConfig, vocabulary_size: int) -> SimpleNPCFG:
    """The model that a configuration describes, freshly initialised from torch's random state."""
    return SimpleNPCFG(config, vocabulary_size)
