"""Renamed configuration keys: the old names are still read, with a warning."""

import warnings
from collections.abc import Mapping
from typing import Any

from simplepcfg.errors import InputError

# The old names are those of versions up to 0.2.
RENAMED = {
    "model.normalised": "model.rms_norm",
    "model.initial_scores": "model.init_logit_std",
    "model.initial_emissions": "model.init_emission_logit_std",
    "model.own_tags": "model.dedicated_preterminals",
    "training.network_rate": "training.network_lr_multiplier",
    "training.average_decay": "training.ema_decay",
    "training.branching": "training.branching_bias",
    "training.branching_steps": "training.branching_bias_steps",
}


def current_key(key: str, place: str, *, silent: bool = False) -> str:
    """Return the present name of a dotted key and warn if it is an old name, unless `silent`.

    `place` says where the key was read.
    """
    if key not in RENAMED:
        return key
    if not silent:
        warnings.warn(f'{place}: the key "{key}" is now "{RENAMED[key]}"', FutureWarning, stacklevel=2)
    return RENAMED[key]


def with_current_keys(values: Mapping[str, Any], place: str, *, silent: bool = False) -> dict[str, Any]:
    """Return a configuration's tables with every old key under its present name.

    Raises InputError where a key is given under both names.
    """
    found = {name: dict(table) if isinstance(table, Mapping) else table for name, table in values.items()}
    for old in RENAMED:
        table, _, name = old.partition(".")
        if not isinstance(found.get(table), dict) or name not in found[table]:
            continue
        new = current_key(old, place, silent=silent).partition(".")[2]
        if new in found[table]:
            raise InputError(f'{place}: both "{table}.{new}" and its old name "{old}" are given; remove "{old}"')
        found[table][new] = found[table].pop(name)
    return found
