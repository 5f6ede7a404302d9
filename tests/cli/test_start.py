"""The start of the commands that people wait for: what they do not need is not imported."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from simplepcfg.__main__ import TRACING, main
model, text, table = sys.argv[1:]
# Importing nltk loads what it finds installed, scipy and scikit-learn: up to seconds of start-up.
unneeded = {"torch._decomp.decompositions", "torch._dynamo", "nltk", "matplotlib"}
for arguments in (["parse", model, text], ["score", model, text], ["score", model, table, "--regions"]):
    sys.argv = ["simplepcfg", *arguments, "--quiet"]
    assert main() == 0
    assert not unneeded & sys.modules.keys(), (arguments, unneeded & sys.modules.keys())
deferred = sys.modules[TRACING]
assert callable(deferred.register_meta) and sys.modules[TRACING] is not deferred
import torch
assert torch.empty(2, 3, device="meta").softmax(-1).shape == (2, 3)
"""


def test_parsing_imports_what_it_needs(tmp_path: Path) -> None:
    text, table = tmp_path / "text.txt", tmp_path / "items.tsv"
    table.write_text("item\tzone\tsentence\tword\n1\t1\t1\tThe\n1\t2\t1\tdog\n1\t3\t1\tdoesn't.\n")
    long = "the old man sees a dog and the young woman " * 5  # so that nodes are pruned
    text.write_text(f"the old man sees a dog .\n{long}\n", encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM, "english", str(text), str(table)]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(")
