"""Operations from the parameters of a neural grammar to its probabilities: networks, rules and emissions."""

from simplepcfg.ops.neural.emissions import emission_log_probabilities, log_normaliser
from simplepcfg.ops.neural.factors import product, row_softmax
from simplepcfg.ops.neural.residual import residual_networks
from simplepcfg.ops.neural.rules import rule_probabilities
from simplepcfg.ops.neural.sentence_rules import sentence_rule_probabilities
from simplepcfg.ops.neural.softmax import LEAST_FACTOR, rule_softmax

__all__ = [
    "LEAST_FACTOR",
    "emission_log_probabilities",
    "log_normaliser",
    "product",
    "residual_networks",
    "row_softmax",
    "rule_probabilities",
    "rule_softmax",
    "sentence_rule_probabilities",
]
