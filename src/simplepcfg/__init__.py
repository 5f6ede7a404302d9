"""Large probabilistic context-free grammars, learned from raw text and run at hardware speed.

The names in ``__all__`` are the stable interface; everything else may change with a minor version.
"""

from typing import TYPE_CHECKING, Any

from simplepcfg.version import __version__

if TYPE_CHECKING:
    from simplepcfg import models
    from simplepcfg.data.raw_text import split_raw
    from simplepcfg.errors import InputError, NumericalError, ResourceError, SimplePCFGError, TextWarning
    from simplepcfg.fitting import fit
    from simplepcfg.grammars import DenseGrammar, Grammar, HiddenMarkovModel, RankGrammar, SimpleGrammar
    from simplepcfg.inference.ensembles import Ensemble, ensemble
    from simplepcfg.inference.run import Run, load
    from simplepcfg.models import build_model
    from simplepcfg.ops.inside import inside, span_marginals

__all__ = [
    "DenseGrammar",
    "Ensemble",
    "Grammar",
    "HiddenMarkovModel",
    "InputError",
    "NumericalError",
    "RankGrammar",
    "ResourceError",
    "Run",
    "SimpleGrammar",
    "SimplePCFGError",
    "TextWarning",
    "__version__",
    "build_model",
    "ensemble",
    "fit",
    "inside",
    "load",
    "models",
    "span_marginals",
    "split_raw",
]

_HOMES = {
    "data.raw_text": ("split_raw",),
    "errors": ("InputError", "NumericalError", "ResourceError", "SimplePCFGError", "TextWarning"),
    "fitting": ("fit",),
    "grammars": ("DenseGrammar", "Grammar", "HiddenMarkovModel", "RankGrammar", "SimpleGrammar"),
    "inference.ensembles": ("Ensemble", "ensemble"),
    "inference.run": ("Run", "load"),
    "models": ("build_model",),
    "ops.inside": ("inside", "span_marginals"),
}


def __getattr__(name: str) -> Any:
    """Import on first use: `simplepcfg.inside` needs torch alone, and `import simplepcfg` needs nothing."""
    from importlib import import_module

    if name == "models":
        return import_module("simplepcfg.models")
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"simplepcfg.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
