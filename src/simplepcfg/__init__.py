"""Large probabilistic context-free grammars, learned from raw text and run at hardware speed."""

from typing import TYPE_CHECKING, Any

from simplepcfg.version import __version__

if TYPE_CHECKING:
    from simplepcfg.data.raw_text import split_raw
    from simplepcfg.inference.api import fit, load
    from simplepcfg.inference.ensembles import Ensemble, ensemble
    from simplepcfg.inference.run import Run

__all__ = ["Ensemble", "Run", "__version__", "ensemble", "fit", "load", "split_raw"]

_HOMES = {
    "Ensemble": "simplepcfg.inference.ensembles",
    "Run": "simplepcfg.inference.run",
    "ensemble": "simplepcfg.inference.ensembles",
    "fit": "simplepcfg.inference.api",
    "load": "simplepcfg.inference.api",
    "split_raw": "simplepcfg.data.raw_text",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `simplepcfg.ops` needs torch alone, and `import simplepcfg` needs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
