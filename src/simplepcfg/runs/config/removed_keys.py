"""Configuration keys that no longer exist, with advice for each."""

from collections.abc import Mapping
from typing import Any

from simplepcfg.errors import InputError

# A run folder with one of these keys was written before version 0.2, and its weights are those of other networks.
RETRAIN = "a run that has this key was written before version 0.2 and must be trained again"
REMOVED = {
    "model.residual_blocks": "networks are those of the papers, see model.networks",
    "model.compound_rules": "the sentence vector is part of the parent's network, as in the paper",
}


def refuse_removed_keys(values: Mapping[str, Any], place: str, origins: Mapping[str, str]) -> None:
    """Raise InputError for the first removed key in a configuration.

    `place` is the file that was read, and `origins` are the keys that were set by an override or the environment, with
    what set them.
    """
    for key, advice in REMOVED.items():
        table, _, name = key.partition(".")
        found = values.get(table)
        if isinstance(found, Mapping) and name in found:
            origin = origins.get(key, origins.get(table))  # an override of a table replaces all of it
            if origin is not None:
                raise InputError(f'{origin}: the key "{key}" is gone: {advice}; leave it out')
            raise InputError(f'{place or "configuration"}: the key "{key}" is gone: {advice}; {RETRAIN}')
