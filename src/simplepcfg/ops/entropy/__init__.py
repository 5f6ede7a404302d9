"""Entropy of the derivations or trees of a sentence, and the KL divergence between two grammars, in nats."""

from simplepcfg.ops.entropy.derivations import derivation_entropy, derivation_kl
from simplepcfg.ops.entropy.trees import MOST_WORDS, entropy_of_weights, kl_of_weights, tree_log_weights

__all__ = [
    "MOST_WORDS",
    "derivation_entropy",
    "derivation_kl",
    "entropy_of_weights",
    "kl_of_weights",
    "tree_log_weights",
]
