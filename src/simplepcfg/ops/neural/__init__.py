"""What a neural grammar does with its parameters before the inside algorithm: networks, rules, emissions."""

from simplepcfg.ops.neural.rules import rule_probabilities

__all__ = ["rule_probabilities"]
