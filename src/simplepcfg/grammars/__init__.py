"""Rule probabilities with the questions that one can ask of them; ``Grammar`` is the interface of every family."""

from simplepcfg.grammars.base import Grammar
from simplepcfg.grammars.dense import DenseGrammar
from simplepcfg.grammars.emissions import (
    BatchEmissions,
    DenseEmissions,
    Emissions,
    FactoredEmissions,
)
from simplepcfg.grammars.hidden_markov import HiddenMarkovModel
from simplepcfg.grammars.rank import RankGrammar
from simplepcfg.grammars.simple import SimpleGrammar

__all__ = [
    "BatchEmissions",
    "DenseEmissions",
    "DenseGrammar",
    "Emissions",
    "FactoredEmissions",
    "Grammar",
    "HiddenMarkovModel",
    "RankGrammar",
    "SimpleGrammar",
]
