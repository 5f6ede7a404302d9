"""Checks that every model's configuration makes; each error names the key, its value and the fix."""

import math
from typing import Any

from simplepcfg.errors import InputError

# No machine holds a matrix of this many rows and columns: a larger number is a mistake.
SIZE_LIMIT = 2**24


def check_sizes(config: Any, *names: str) -> None:
    """Counts and widths: at least 1, and of a size that some machine could hold."""
    for name in names:
        value = getattr(config, name)
        if value < 1:
            raise InputError(f"model.{name} = {value}; it must be at least 1")
        if value >= SIZE_LIMIT:
            raise InputError(f"model.{name} = {value}; it must be below {SIZE_LIMIT}")


def check_deviation(config: Any, name: str = "init_logit_std") -> None:
    """A standard deviation: finite, 0 or more."""
    value = getattr(config, name)
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(f"model.{name} = {value}; it must be finite and at least 0")


def check_choice(config: Any, name: str, choices: tuple[str, ...]) -> None:
    """One of a few words."""
    value = getattr(config, name)
    if value not in choices:
        raise InputError(f"model.{name} = {value!r}; take {' or '.join(choices)}")


def check_networks(config: Any) -> None:
    """Networks as the authors released them, or this package's own residual networks with settings of their own."""
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
    """A vocabulary has padding, id 0, and words."""
    if size < 2:
        raise InputError(f"vocabulary_size = {size}; it must hold padding and at least one word")
