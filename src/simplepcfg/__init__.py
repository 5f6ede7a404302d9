"""Large probabilistic context-free grammars, learned from raw text and run at hardware speed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simplepcfg.api import fit, load
    from simplepcfg.data.raw_text import split_raw
    from simplepcfg.ensembles import Ensemble, ensemble
    from simplepcfg.run import Run

__version__ = "0.2.0"
__all__ = ["Ensemble", "Run", "__version__", "ensemble", "fit", "load", "split_raw"]

_HOMES = {
    "Ensemble": "simplepcfg.ensembles",
    "Run": "simplepcfg.run",
    "ensemble": "simplepcfg.ensembles",
    "fit": "simplepcfg.api",
    "load": "simplepcfg.api",
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
