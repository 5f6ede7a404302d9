"""Checks of model configurations; each error names the key, its value and the fix."""

import math
from typing import Any

from simplepcfg.errors import InputError

# A matrix with this many rows and columns fits no machine, so that a larger number is a mistake.
SIZE_LIMIT = 2**24


def check_sizes(config: object, *names: str) -> None:
    """Raise InputError if a count or width of these names is below 1 or above every plausible size."""
    for name in names:
        value = getattr(config, name)
        if value < 1:
            raise InputError(f"model.{name} = {value}; it must be at least 1")
        if value >= SIZE_LIMIT:
            raise InputError(f"model.{name} = {value}; it must be below {SIZE_LIMIT}")


def check_deviation(config: object, name: str = "init_logit_std") -> None:
    """Raise InputError if a standard deviation is negative or not finite."""
    value = getattr(config, name)
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(f"model.{name} = {value}; it must be finite and at least 0")


def check_choice(config: object, name: str, choices: tuple[str, ...]) -> None:
    """Raise InputError if a value is none of the choices."""
    value = getattr(config, name)
    if value not in choices:
        raise InputError(f"model.{name} = {value!r}; take {' or '.join(choices)}")


def check_networks(config: Any) -> None:
    """Raise InputError for unknown `networks`, or for settings of residual networks where `networks` is "released"."""
    check_choice(config, "networks", ("released", "residual"))
    if config.networks == "residual":
        return
    for name in ("rms_norm", "init_logit_std"):
        value = getattr(config, name)
        if value:
            raise InputError(
                f"model.{name} = {str(value).lower()} is a setting of residual networks; set model.networks=residual, "
                f"or leave model.{name} out"
            )


def check_vocabulary(size: int) -> None:
    """Raise InputError if a vocabulary does not hold padding, id 0, and at least one word."""
    if size < 2:
        raise InputError(f"vocabulary_size = {size}; it must hold padding and at least one word")
