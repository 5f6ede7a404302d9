"""Entropy of the derivations of a sentence, and the KL divergence between two grammars, in nats."""

from simplepcfg.ops.entropy.derivations import derivation_entropy, derivation_kl

__all__ = ["derivation_entropy", "derivation_kl"]
