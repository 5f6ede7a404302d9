"""The built-in configuration that suits a machine and an amount of text."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from simplepcfg.runs.device import resolve_device

FEW_SENTENCES = 2_000  # below this no grammar of hundreds of symbols finds more than chance in a text
# Fewer want ten epochs of sn-pcfg-128, more have better trees after three of rank-pcfg-128 (docs/trees.md).
MANY_SENTENCES = 20_000
LARGE_GPU = 20 * 2**30  # bytes; a grammar of 4096 nonterminals trains in less


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A built-in configuration, and why."""

    config: str
    reason: str

    def __str__(self) -> str:
        return f"simplepcfg train {self.config} ({self.reason})"


def fitting_configuration(sentences: int, language_model: bool = False, device: str = "auto") -> Recommendation:
    """Return the configuration for so many training sentences on this machine, for trees or for perplexity."""
    chosen = resolve_device(device)
    if sentences < FEW_SENTENCES:
        return Recommendation("demo", "few sentences make a toy; give more")
    if chosen.type == "cuda":
        memory = torch.cuda.get_device_properties(chosen).total_memory
        if memory >= LARGE_GPU:
            return Recommendation("sn-pcfg-4096" if language_model else "sn-pcfg", "a GPU with room for 4096 symbols")
        return Recommendation("sn-pcfg-small", "a GPU with little memory")
    name = "rank-pcfg-128" if sentences >= MANY_SENTENCES else "sn-pcfg-128"
    return Recommendation("sn-pcfg-small-lm" if language_model else name, "no GPU: 128 nonterminals")
