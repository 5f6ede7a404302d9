"""`python -m simplepcfg`, and the command `simplepcfg`, are the command line."""

import sys


def main() -> int:
    """The command line's exit code. What it imports takes a while, and Ctrl-C may come in that time, too."""
    try:
        from simplepcfg.cli.main import run

        return run()
    except KeyboardInterrupt:
        # As simplepcfg.cli.failures would have it, which may be what was not imported yet.
        print("simplepcfg: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
