"""Advice on what to try where steps are not finite."""

import torch
from torch import nn

from simplepcfg.runs.config.schema import RunConfig

SAFE_NETWORK_LR_MULTIPLIER = 0.1


def stability_advice(config: RunConfig, model: nn.Module, device: torch.device) -> str:
    """Return what to change in the configuration; large updates of the networks are the likeliest cause."""
    advice = "lower training.learning_rate"
    too_fast = config.training.network_lr_multiplier > SAFE_NETWORK_LR_MULTIPLIER
    if too_fast and not getattr(config.model, "rms_norm", False):
        advice = f"set training.network_lr_multiplier={SAFE_NETWORK_LR_MULTIPLIER} or {advice}"
    if device.type != "cpu" and getattr(model, "precision", "fp32") != "fp32":
        advice += " or set training.precision=fp32"
    return advice
