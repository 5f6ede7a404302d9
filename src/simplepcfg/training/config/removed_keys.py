"""Configuration keys that no longer exist, with advice for each."""

from collections.abc import Mapping
from typing import Any

from simplepcfg.errors import InputError

# A run folder with one of these keys was written before version 0.2, and its weights are those of other networks.
RETRAIN = "a run that has this key was written before version 0.2 and must be trained again"
REMOVED = {
    "model.residual_blocks": f"networks are those of the papers, see model.networks; {RETRAIN}",
    "model.compound_rules": f"the sentence vector is part of the parent's network, as in the paper; {RETRAIN}",
}


def refuse_removed_keys(values: Mapping[str, Any], place: str) -> None:
    """Raise InputError for the first removed key in a configuration; `place` says where it was read."""
    for key, advice in REMOVED.items():
        table, _, name = key.partition(".")
        found = values.get(table)
        if isinstance(found, Mapping) and name in found:
            raise InputError(f'{place or "configuration"}: the key "{key}" is gone: {advice}')
