"""The example scripts run."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_compiled_model() -> None:
    """Compiled in one graph, within autocast and with mixed lengths, the loss falls."""
    losses = runpy.run_path(str(EXAMPLES / "compiled_model.py"))["train"](steps=40, compiler="aot_eager")
    assert sum(losses[-5:]) < 0.85 * sum(losses[:5])
