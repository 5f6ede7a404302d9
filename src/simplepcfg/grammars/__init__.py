"""Frozen rule tensors with the questions that one can ask of them."""

from simplepcfg.grammars.emissions import (
    BatchEmissions,
    DenseEmissions,
    Emissions,
    FactoredEmissions,
    SentenceEmissions,
)
from simplepcfg.grammars.simple import SimpleGrammar

__all__ = ["BatchEmissions", "DenseEmissions", "Emissions", "FactoredEmissions", "SentenceEmissions", "SimpleGrammar"]
