"""The same targets by coverage: `python tests/attacks/fuzz_atheris.py "tree reader" -runs=100000`, if atheris is there.

Findings are raised, so that libFuzzer stops and writes the input that caused them to crash-….
"""

import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
sys.path.insert(0, str(Path(__file__).parents[1]))
with atheris.instrument_imports(include=["simplepcfg"]):
    from attacks.fuzz_targets import Targets


def main() -> None:
    name, *options = sys.argv[1:]
    target = Targets(Path(tempfile.mkdtemp(prefix="fuzz-"))).all()[name]

    def one(data: bytes) -> None:
        finding = target(data)
        if finding is not None:
            raise RuntimeError(finding)

    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
