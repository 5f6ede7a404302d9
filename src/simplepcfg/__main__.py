"""`python -m simplepcfg` is the command line."""

import sys

from simplepcfg.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
