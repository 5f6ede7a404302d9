"""`python -m simplepcfg`, and the command `simplepcfg`, are the command line."""

import gc
import sys

GARBAGE_AFTER = 50_000  # objects that were made since the last search for garbage


def main() -> int:
    """The command line's exit code. What it imports takes a while, and Ctrl-C may come in that time, too."""
    # Importing torch makes very many objects that stay. Looking for garbage among them again and again took 6 % of the
    # processor time until the first tree.
    gc.set_threshold(GARBAGE_AFTER)
    try:
        from simplepcfg.cli.main import run

        return run()
    except KeyboardInterrupt:
        # As simplepcfg.cli.failures would have it, which may be what was not imported yet.
        print("simplepcfg: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
