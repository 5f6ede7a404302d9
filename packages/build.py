"""Build the wheels of all grammars that the repository holds, or of those that are named.

    python packages/build.py [NAME...] [--out dist]

Every folder beside this file that holds a packed grammar (`simplepcfg package RUN --name simplepcfg-NAME --folder --out
packages`) becomes `simplepcfg_NAME-VERSION-py3-none-any.whl`. Two builds have the same bytes.
"""

import argparse
import hashlib
from pathlib import Path

from simplepcfg.inference.packaging import PREFIX, build_wheel
from simplepcfg.pretrained import PACKAGED

HERE = Path(__file__).parent


def main() -> None:
    """Print path, size and SHA-256 of each wheel."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="of grammars; all by default")
    parser.add_argument("--out", type=Path, default=Path("dist"))
    arguments = parser.parse_args()
    held = sorted(path.parent.name for path in HERE.glob("*/config.toml"))
    for name in arguments.names or held:
        if name not in held:
            wanted = "is not trained yet: see docs/languages.md" if name in PACKAGED else "is unknown"
            parser.error(f"{HERE / name}: no packed grammar; {name} {wanted}; there are: {', '.join(held) or 'none'}")
        wheel = build_wheel(HERE / name, PREFIX + name, arguments.out)
        content = wheel.read_bytes()
        print(f"{wheel}\t{len(content) / 1e6:.1f} MB\t{hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
