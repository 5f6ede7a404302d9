"""The start of the commands that people wait for: what they do not need is not imported."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from simplepcfg.__main__ import TRACING, main
sys.argv = ["simplepcfg", "parse", "english", sys.argv[1], "--quiet"]
assert main() == 0
unneeded = [name for name in ("torch._decomp.decompositions", "nltk", "matplotlib") if name in sys.modules]
assert not unneeded, unneeded
deferred = sys.modules[TRACING]
assert callable(deferred.register_meta) and sys.modules[TRACING] is not deferred
import torch
assert torch.empty(2, 3, device="meta").softmax(-1).shape == (2, 3)
"""


def test_parsing_imports_what_it_needs(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    long = "the old man sees a dog and the young woman " * 5  # so that the coarse grammar is asked
    text.write_text(f"the old man sees a dog .\n{long}\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(text)], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(")
